"""Cgroups of a host: a subtree of its own in each hierarchy that it sees.

Hosts would otherwise share the containers' cgroups, and leave them behind.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.lab.shell import LabError

Layout = Literal["v1", "v2"]
_PREFIX = "spotrun-lab-"
_PATIENCE = 5
"""Seconds: a cgroup is busy for a moment after its last process was killed."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One that this machine has mounted."""

    controllers: str
    """As in /proc/self/cgroup; empty: version 2."""
    own: Path
    """Cgroup of this process."""

    @property
    def options(self) -> str:
        """Return what `mount -t cgroup -o` takes."""
        return ("none," if "name=" in self.controllers else "") + self.controllers


def hierarchies(layout: Layout) -> list[Hierarchy]:
    """Return what hosts of that layout see."""
    found = [one for one in _mounted() if (one.controllers == "") == (layout == "v2")]
    if layout == "v1" and not found:
        raise LabError("this machine has no cgroup v1 hierarchies")
    return found


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Those of one host."""

    roots: list[Path]
    """What the host sees as the top of each hierarchy."""
    leaves: list[Path]
    """Where its own processes are; a root of version 2 that has controllers may have none."""

    def unshared(self, argv: list[str]) -> list[str]:
        """Return a command that makes their namespace before it becomes another."""
        return _joining(self.roots, ["unshare", "--cgroup", *_joining(self.leaves, argv)])

    def joined(self, argv: list[str]) -> list[str]:
        """Return a command that enters them before it becomes another."""
        return _joining(self.leaves, argv)


def claim(layout: Layout, name: str) -> Cgroups:
    """Make the cgroups of a host."""
    roots = [hierarchy.own / f"{_PREFIX}{name}" for hierarchy in hierarchies(layout)]
    leaves = [root / "init" for root in roots] if layout == "v2" else roots
    for cgroup in [*roots, *leaves]:
        cgroup.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if layout == "v1" and (cgroup / setting).exists():
                (cgroup / setting).write_text((cgroup.parent / setting).read_text())
    return Cgroups(roots, leaves)


def release(pattern: str) -> None:
    """Remove the cgroups of all hosts with such a name; they have no process any more."""
    deadline = time.monotonic() + _PATIENCE
    for hierarchy in _mounted():
        for cgroup in hierarchy.own.glob(f"{_PREFIX}{pattern}"):
            inner = sorted((path for path in cgroup.rglob("*/") if path.is_dir()), reverse=True)
            for path in [*inner, cgroup]:
                _remove(path, deadline)


def _mounted() -> Iterator[Hierarchy]:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        wanted = set(filter(None, controllers.split(",")))
        kind = "cgroup" if wanted else "cgroup2"
        for _, mountpoint, fstype, options, *_ in mounts:
            if fstype == kind and wanted <= set(options.split(",")):
                yield Hierarchy(controllers, Path(mountpoint) / own.lstrip("/"))
                break


def _remove(cgroup: Path, deadline: float) -> None:
    while True:
        try:
            cgroup.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _joining(cgroups: list[Path], argv: list[str]) -> list[str]:
    enter = 'while [ "$1" != -- ]; do echo 0 >"$1/cgroup.procs"; shift; done; shift; exec "$@"'
    return ["sh", "-c", enter, "joining", *map(str, cgroups), "--", *argv]
