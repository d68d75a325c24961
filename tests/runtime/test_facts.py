"""Facts about this host are read from what the kernel and the programs really say."""

import os
import platform

import pytest

from spotrun.images.errors import HostUnfit
from spotrun.images.process import Completed
from spotrun.runtime import facts
from tests.fakes.runner import ScriptedRunner

_CRIU = ("criu", "--version")
_RUNC = ("runc", "--version")
_CRIU_SAYS = Completed(0, "Version: 4.2.1\nGitID: v4.2.1\n")
_RUNC_SAYS = Completed(
    0, "runc version 1.1.15+ds1\ncommit: 1.1.15+ds1-2\nspec: 1.2.0\ngo: go1.24\n"
)
_NOT_FOUND = Completed(127, stderr="command not found")

_ROOT = "30 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
_V1 = "35 30 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
_UNIFIED = "41 30 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
_PLAIN = "52 23 0:38 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n"


def test_host_is_described_by_its_kernel_and_its_programs() -> None:
    """Every fact is filled in; the distribution's suffix of runc's version is left out."""
    found = facts.gather(ScriptedRunner({_CRIU: _CRIU_SAYS, _RUNC: _RUNC_SAYS}), "podman 5.4.2")
    assert (found.criu, found.oci_runtime, found.engine) == ("4.2.1", "runc 1.1.15", "podman 5.4.2")
    assert (found.hostname, found.arch) == (os.uname().nodename, os.uname().machine)
    assert found.kernel == platform.release()
    assert found.cpu_flags == tuple(sorted(found.cpu_flags))
    assert found.cpu_flags
    assert found.cgroup_layout in {"v2", "v1", "hybrid", "none"}


@pytest.mark.parametrize(
    ("criu", "runc", "missing"),
    [(_NOT_FOUND, _RUNC_SAYS, "CRIU"), (_CRIU_SAYS, _NOT_FOUND, "runc")],
)
def test_host_without_criu_or_runc_has_no_facts(
    criu: Completed, runc: Completed, missing: str
) -> None:
    """What is missing is named."""
    with pytest.raises(HostUnfit, match=f"{missing} is not installed"):
        facts.gather(ScriptedRunner({_CRIU: criu, _RUNC: runc}), "podman 5.4.2")


@pytest.mark.parametrize(
    ("mountinfo", "layout"),
    [
        (_PLAIN, "v2"),
        (_ROOT + _V1, "v1"),
        (_ROOT + _V1 + _UNIFIED, "hybrid"),
        (_ROOT + _V1 + _UNIFIED + _PLAIN, "v2"),
        (_ROOT, "none"),
    ],
)
def test_cgroup_layout_is_what_can_be_reached(mountinfo: str, layout: str) -> None:
    """A plain cgroup2 that lies on top of older mounts hides them."""
    assert facts.cgroup_layout(mountinfo) == layout


@pytest.mark.parametrize("name", ["flags\t\t", "Features\t"])
def test_cpu_flags_are_sorted_on_every_architecture(name: str) -> None:
    """Kernels for x86 and arm64 name the line differently."""
    assert facts.cpu_flags(f"processor\t: 0\n{name}: sse2 aes\n\n{name}: sse2\n") == ("aes", "sse2")


def test_versions_are_compared_as_numbers() -> None:
    """A suffix is ignored, and 4.10 is newer than 4.2."""
    assert facts.version_tuple("6.18.44-fc") == (6, 18, 44)
    assert facts.version_tuple("4.10") > facts.version_tuple("4.2.1")


def test_text_without_a_version_is_refused() -> None:
    """It would otherwise count as the oldest of all."""
    with pytest.raises(ValueError, match="'unknown' does not begin with a version"):
        facts.version_tuple("unknown")


def test_kernel_is_the_running_one() -> None:
    """Its release begins with the numbers."""
    assert platform.release().startswith(".".join(map(str, facts.kernel_version())))
