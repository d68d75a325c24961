"""Whether the processes of one host can go on on another."""

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spotrun.runtime.facts import version_tuple

if TYPE_CHECKING:
    from spotrun.images.manifest import HostFacts

_X86_INSTRUCTIONS: Final = re.compile(
    r"""mmx|cx16|lahf_lm|fsgsbase|rdtscp|rdpid|rdrand|rdseed|rtm
    |pni|ssse3|sse\w*|avx\w*|amx_\w+|fma\w*|f16c|xop|tbm
    |bmi\d|abm|lzcnt|popcnt|movbe|adx|movdiri|movdir64b|serialize|waitpkg
    |aes|vaes|pclmulqdq|vpclmulqdq|gfni|sha\w+|sm3|sm4
    |clflushopt|clwb|clzero|mwaitx
    |xsave\w*|xgetbv1|pku|ospke|la57""",
    re.VERBOSE,
)
"""Flags of instructions, or of state that has to be restored.

A program that has once found such a flag uses it without asking again, and dies where it is
missing (podman#17496). The other flags (`erms` and the like) only say what is fast, or concern
the kernel alone; equal CPUs differ in them.
"""
_ARM_OTHER: Final = frozenset({"evtstrm", "cpuid"})
"""On arm64 nearly every flag is an instruction; these are not."""


def judge(
    source: "HostFacts",
    here: "HostFacts",
    *,
    memory_needed: int,
    memory_free: int,
    disk_needed: int,
    disk_free: int,
) -> list[str]:
    """Return every reason why processes of `source` cannot go on here; sizes are in bytes."""
    reasons = [
        _arch(source, here),
        _criu(source, here),
        _oci_runtime(source, here),
        _cgroups(source, here),
        _cpu(source, here),
        _room("memory", here, needed=memory_needed, free=memory_free),
        _room("disk space", here, needed=disk_needed, free=disk_free),
    ]
    return [reason for reason in reasons if reason]


def free_memory() -> int:
    """Return how many bytes of memory new processes can have here without swapping."""
    found = re.search(r"\nMemAvailable:\s+(\d+) kB\n", Path("/proc/meminfo").read_text())
    return int(found[1]) << 10 if found else 0


def free_disk(path: Path) -> int:
    """Return how many bytes can be written at a path, which need not exist yet."""
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(existing).free


def size(count: int) -> str:
    """Return a number of bytes in MiB or GiB, for people."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"


def _arch(source: "HostFacts", here: "HostFacts") -> str | None:
    if source.arch == here.arch:
        return None
    return f"its processes are {source.arch} and {here.hostname} is {here.arch}"


def _criu(source: "HostFacts", here: "HostFacts") -> str | None:
    if version_tuple(here.criu) >= version_tuple(source.criu):
        return None
    return (
        f"CRIU {here.criu} on {here.hostname} is older than CRIU {source.criu} on"
        f" {source.hostname}; install {source.criu} or newer"
    )


def _oci_runtime(source: "HostFacts", here: "HostFacts") -> str | None:
    if _name(source.oci_runtime) == _name(here.oci_runtime):
        return None
    return (
        f"it was saved through {source.oci_runtime}, whose process images"
        f" {here.oci_runtime} on {here.hostname} cannot read"
    )


def _cgroups(source: "HostFacts", here: "HostFacts") -> str | None:
    if (source.cgroup_layout == "v2") == (here.cgroup_layout == "v2"):
        return None
    return (
        f"{source.hostname} has cgroup layout {source.cgroup_layout} and {here.hostname} has"
        f" {here.cgroup_layout}; boot both with the same"
    )


def _cpu(source: "HostFacts", here: "HostFacts") -> str | None:
    missing = set(source.cpu_flags) - set(here.cpu_flags)
    fatal = sorted(flag for flag in missing if _matters(flag, source.arch))
    if source.arch != here.arch or not fatal:
        return None
    return (
        f"the CPU of {here.hostname} lacks {', '.join(fatal)}, which its processes may have"
        f" found on {source.hostname}"
    )


def _matters(flag: str, arch: str) -> bool:
    if arch == "x86_64":
        return _X86_INSTRUCTIONS.fullmatch(flag) is not None
    return flag not in _ARM_OTHER


def _room(what: str, here: "HostFacts", *, needed: int, free: int) -> str | None:
    if needed <= free:
        return None
    return f"it needs {size(needed)} of {what} and {here.hostname} has {size(free)} free"


def _name(versioned: str) -> str:
    return versioned.partition(" ")[0]
