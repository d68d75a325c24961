"""What /proc says of a container's processes while it is saved, and when it is back."""

import fcntl
import os
import re
import signal
import sys
import termios
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_DRAIN_SECONDS: Final = 2.0
_ID: Final = re.compile("[0-9a-f]{64}")
_LOOKS: Final = 100
_LOOK: Final = 0.1
_QUIET: Final = 3
"""Looks, so many seconds apart, in which nothing may be found."""


def memory_of(pids: list[int]) -> int:
    """Return the resident memory of processes, in bytes, shared pages counted once each."""
    return sum(_pss(pid) for pid in pids)


@dataclass(frozen=True, slots=True)
class Thread:
    """What a thread is about."""

    state: str
    """A letter (proc(5)): R for one that could run, S and D for one that waits in the kernel, …"""
    ticks: int
    """Of CPU time that it has used."""


def threads(pid: int) -> dict[int, Thread]:
    """Return the threads of a process, by id; none: it has gone."""
    found = {}
    with suppress(OSError):
        for task in os.scandir(f"/proc/{pid}/task"):
            with suppress(OSError):
                words = Path(task, "stat").read_text().rpartition(")")[2].split()
                found[int(task.name)] = Thread(words[0], int(words[11]) + int(words[12]))
    return found


def parent(pid: int) -> int | None:
    """Return the parent of a process; None: it has gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def overlay_upper(pid: int) -> Path | None:
    """Return the upper directory of the overlay that is a process's root, if the kernel says it.

    None also of a process that has gone.
    """
    try:
        mounts = Path(f"/proc/{pid}/mountinfo").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        filesystem, _, options = after.split(" ", 2)
        if before.split()[4] == "/" and filesystem == "overlay":
            named = dict(option.partition("=")[::2] for option in options.split(","))
            upper = _unescaped(named.get("upperdir", ""))
            return Path(upper) if upper.startswith("/") else None
    return None


def wait_for_output(pid: int) -> None:
    """Wait until the engine has read what the frozen process wrote into its output pipes.

    What conmon, the parent of Podman's, has read is in the log when it waits again.
    """
    deadline = time.monotonic() + _DRAIN_SECONDS
    for fd in (1, 2):
        path = Path(f"/proc/{pid}/fd/{fd}")
        if not path.is_fifo():
            continue
        with path.open("rb", buffering=0) as pipe:
            while (_unread(pipe.fileno()) or _is_at_it(pid)) and time.monotonic() < deadline:
                time.sleep(0.002)


def _is_at_it(pid: int) -> bool:
    """Tell whether the parent of a process, if it has one thread, does something."""
    found = threads(parent(pid) or 0)
    return len(found) == 1 and all(it.state in "RD" for it in found.values())


def _unescaped(path: str) -> str:
    """Undo how mountinfo writes spaces and the like (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _pss(pid: int) -> int:
    """Return the proportional share of memory of a process, in bytes; 0: it has gone."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    sizes = dict(line.split(":", 1) for line in rollup.splitlines()[1:])
    return int(sizes["Pss"].split()[0]) << 10


def _unread(fd: int) -> int:
    """Return the bytes that wait in a pipe (ioctl_pipe(2))."""
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)


def end_all(container: str) -> None:
    """Kill what is left in a removed container's cgroups, also what just comes into being there.

    A restore that its engine still does is not ended by the removal.
    """
    if not _ID.fullmatch(container):
        return
    quiet = 0
    for _ in range(_LOOKS):
        found = [pid for pid in _all_pids() if container in _cgroups(pid)]
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        quiet = 0 if found else quiet + 1
        if quiet == _QUIET:
            return
        time.sleep(_LOOK)


def leave_cgroups() -> None:
    """Be in cgroups of spotrun's own: who kills those of our caller means the caller.

    One that cannot be entered (cgroup v1's cpuset has nothing to offer) is left alone.
    """
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.split(" ")[0] in {"cgroup", "cgroup2"}:
            place = Path(_unescaped(before.split(" ")[4])) / "spotrun"
            with suppress(OSError):
                place.mkdir(exist_ok=True)
                (place / "cgroup.procs").write_text(str(os.getpid()))


def _all_pids() -> list[int]:
    return [int(it.name) for it in os.scandir("/proc") if it.name.isdecimal()]


def _cgroups(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:  # it has ended
        return ""
