"""A snapshot that would not live on a host is refused with every reason named."""

from dataclasses import replace
from pathlib import Path

import pytest

from spotrun.images.manifest import HostFacts
from spotrun.runtime import fitness

_FLAGS = ("avx2", "avx512f", "erms", "fpu", "xsave")
_SOURCE = HostFacts(
    hostname="alpha",
    kernel="6.12.0",
    arch="x86_64",
    cpu_flags=_FLAGS,
    cgroup_layout="v2",
    criu="4.2.1",
    oci_runtime="runc 1.1.15",
    engine="podman 5.4.2",
)
_HERE = replace(_SOURCE, hostname="beta")
_MIB = 1 << 20


def _judge(
    here: HostFacts = _HERE, source: HostFacts = _SOURCE, *, memory: int = 0, disk: int = 0
) -> list[str]:
    return fitness.judge(
        source,
        here,
        memory_needed=memory,
        memory_free=512 * _MIB,
        disk_needed=disk,
        disk_free=512 * _MIB,
    )


def test_equal_host_fits() -> None:
    """Name and kernel may differ."""
    assert _judge(replace(_HERE, kernel="6.18.0")) == []


@pytest.mark.parametrize(
    ("here", "named"),
    [
        (replace(_HERE, arch="aarch64"), ("x86_64", "aarch64", "beta")),
        (replace(_HERE, criu="4.2"), ("4.2 on beta", "4.2.1 on alpha")),
        (replace(_HERE, oci_runtime="crun 1.21"), ("runc 1.1.15", "crun 1.21")),
        (replace(_HERE, cgroup_layout="v1"), ("v2", "v1")),
        (replace(_HERE, cgroup_layout="hybrid"), ("v2", "hybrid")),
    ],
)
def test_unlike_host_is_refused_with_both_sides_named(
    here: HostFacts, named: tuple[str, ...]
) -> None:
    """One difference gives one reason."""
    (reason,) = _judge(here)
    assert all(word in reason for word in named)


@pytest.mark.parametrize(
    "here",
    [
        replace(_HERE, criu="4.10"),
        replace(_HERE, oci_runtime="runc 1.3.0"),
        replace(_HERE, engine="podman 5.5.0"),
        replace(_HERE, engine="docker 26.1.5"),
        replace(_HERE, cpu_flags=(*_FLAGS, "avx512vl")),
    ],
)
def test_newer_host_fits(here: HostFacts) -> None:
    """Newer programs, another engine and more CPU features do no harm."""
    assert _judge(here) == []


def test_layouts_with_v1_controllers_are_interchangeable() -> None:
    """In the hybrid layout the controllers are those of v1."""
    assert (
        _judge(replace(_HERE, cgroup_layout="v1"), replace(_SOURCE, cgroup_layout="hybrid")) == []
    )


def test_missing_instructions_are_refused_by_name() -> None:
    """The process would die of SIGILL after a restore that seemed to work."""
    (reason,) = _judge(replace(_HERE, cpu_flags=("erms", "fpu", "xsave")))
    assert reason == (
        "the CPU of beta lacks avx2, avx512f, which its processes may have found on alpha"
    )


def test_flags_that_only_tune_do_not_matter() -> None:
    """Two machines of the same model differed in `erms` alone."""
    assert _judge(replace(_HERE, cpu_flags=tuple(set(_FLAGS) - {"erms", "fpu"}))) == []


@pytest.mark.parametrize(
    "flag",
    "sse4_2 ssse3 avx avx512_bf16 avx_vnni amx_tile fma bmi2 aes vaes sha_ni xsavec f16c movbe"
    " popcnt abm adx vpclmulqdq gfni pku ospke la57".split(),
)
def test_every_kind_of_instruction_matters(flag: str) -> None:
    """Compilers and libraries pick code by these."""
    (reason,) = _judge(source=replace(_SOURCE, cpu_flags=(*_FLAGS, flag)))
    assert f" {flag}," in reason


def test_instructions_of_arm_matter_too() -> None:
    """There all flags but a few are instructions."""
    source = replace(_SOURCE, arch="aarch64", cpu_flags=("asimd", "evtstrm", "sve"))
    (reason,) = _judge(replace(source, hostname="beta", cpu_flags=("asimd",)), source)
    assert "lacks sve," in reason


def test_foreign_architecture_is_not_also_blamed_for_its_flags() -> None:
    """Two hosts of different kind have no flag in common, which says nothing."""
    assert len(_judge(replace(_HERE, arch="aarch64", cpu_flags=("asimd",)))) == 1


def test_lack_of_room_is_refused_with_sizes() -> None:
    """All reasons come at once."""
    assert _judge(memory=3 << 30, disk=513 * _MIB) == [
        "it needs 3.0 GiB of memory and beta has 512.0 MiB free",
        "it needs 513.0 MiB of disk space and beta has 512.0 MiB free",
    ]


def test_free_memory_is_read_in_bytes() -> None:
    """It is more than nothing and less than all there is."""
    total = int(Path("/proc/meminfo").read_text().split()[1]) << 10
    assert _MIB < fitness.free_memory() <= total


def test_free_disk_is_that_of_the_folder_to_be_made(tmp_path: Path) -> None:
    """The state folder does not exist before the first job."""
    assert fitness.free_disk(tmp_path / "not" / "yet") > 0
