"""What /proc says of a container's processes while it is saved."""

import fcntl
import re
import struct
import termios
import time
from pathlib import Path
from typing import Final

_DRAIN_SECONDS: Final = 2.0


def memory_of(pids: list[int]) -> int:
    """Return the resident memory of processes, in bytes, shared pages counted once each."""
    return sum(_pss(pid) for pid in pids)


def overlay_upper(pid: int) -> Path | None:
    """Return the upper directory of the overlay that is a process's root, if the kernel says it."""
    for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        filesystem, _, options = after.split(" ", 2)
        if before.split()[4] == "/" and filesystem == "overlay":
            named = dict(option.partition("=")[::2] for option in options.split(","))
            upper = _unescaped(named.get("upperdir", ""))
            return Path(upper) if upper.startswith("/") else None
    return None


def wait_for_output(pid: int) -> None:
    """Wait until the engine has read what the frozen process wrote into its output pipes."""
    for fd in (1, 2):
        path = Path(f"/proc/{pid}/fd/{fd}")
        if not path.is_fifo():
            continue
        with path.open("rb", buffering=0) as pipe:
            deadline = time.monotonic() + _DRAIN_SECONDS
            while _unread(pipe.fileno()) and time.monotonic() < deadline:
                time.sleep(0.002)


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
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0])
