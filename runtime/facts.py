"""Facts about this host that decide what can be frozen here and what can go on here."""

import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spotrun.images.errors import HostUnfit
from spotrun.images.process import Runner

if TYPE_CHECKING:
    from spotrun.images.manifest import HostFacts

_CGROUP_ROOT: Final = "/sys/fs/cgroup"
_VERSION: Final = re.compile(r"\d+(?:\.\d+)*")
_CPU_FLAGS: Final = re.compile(r"^(?:flags|Features)\s*:(.*)$", re.MULTILINE)
"""x86 kernels say `flags`, arm64 kernels `Features`."""


def gather(runner: Runner, engine_version: str) -> "HostFacts":
    """Return this host's facts; HostUnfit: it has no CRIU or no runc."""
    from spotrun.images.manifest import HostFacts

    criu, runtime = criu_version(runner), runc_version(runner)
    if criu is None or runtime is None:
        missing = "CRIU" if criu is None else "runc"
        raise HostUnfit(message=f"{missing} is not installed or does not start; install it")
    return HostFacts(
        hostname=platform.node(),
        kernel=platform.release(),
        arch=platform.machine(),
        cpu_flags=cpu_flags(Path("/proc/cpuinfo").read_text()),
        cgroup_layout=cgroup_layout(Path("/proc/self/mountinfo").read_text()),
        criu=criu,
        oci_runtime=f"runc {runtime}",
        engine=engine_version,
    )


def criu_version(runner: Runner) -> str | None:
    """Return like `4.2.1`; None: there is no CRIU, or it does not start."""
    return _version_said(runner, "criu")


def runc_version(runner: Runner) -> str | None:
    """Return like `1.1.15`, without a distribution's suffix; None: there is no runc."""
    return _version_said(runner, "runc")


def kernel_version() -> tuple[int, ...]:
    """Return the running kernel's version, like (6, 18, 44)."""
    return version_tuple(platform.release())


def version_tuple(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, to be compared; ValueError: none."""
    found = _VERSION.match(version)
    if not found:
        raise ValueError(f"{version!r} does not begin with a version number")
    return tuple(int(number) for number in found[0].split("."))


def cpu_flags(cpuinfo: str) -> tuple[str, ...]:
    """Return the flags of the first CPU in the text of /proc/cpuinfo, sorted."""
    found = _CPU_FLAGS.search(cpuinfo)
    return tuple(sorted(found[1].split())) if found else ()


def cgroup_layout(mountinfo: str) -> str:
    """Return `v2`, `v1`, `hybrid` or `none` from the text of a /proc/PID/mountinfo.

    Where a plain cgroup2 lies on top of older mounts, those cannot be reached any more.
    """
    mounts = [_mount(line) for line in mountinfo.splitlines()]
    types = {filesystem for _, filesystem in mounts}
    root = [filesystem for point, filesystem in mounts if point == _CGROUP_ROOT]
    if root and root[-1] == "cgroup2":
        return "v2"
    if "cgroup" in types:
        return "hybrid" if "cgroup2" in types else "v1"
    return "none"


def _mount(line: str) -> tuple[str, str]:
    """Return mount point and file system type; see proc(5)."""
    before, _, after = line.partition(" - ")
    return before.split()[4], after.split()[0]


def _version_said(runner: Runner, program: str) -> str | None:
    done = runner.run([program, "--version"])
    found = _VERSION.search(done.stdout) if done.status == 0 else None
    return found[0] if found else None
