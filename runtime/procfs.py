"""What /proc says of processes that may end meanwhile: they count as having nothing then."""

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_GONE: Final = {errno.ENOENT, errno.ESRCH, errno.EINVAL}
"""What /proc answers of a process that has ended; EINVAL of its network, until it is reaped."""
_DELETED: Final = " (deleted)"
"""Behind the name of a file that has lost it."""


def open_files(pid: int) -> list[tuple[str, str]]:
    """Return the file descriptors of a process and what their links say."""
    found = []
    for path in _entries(Path(f"/proc/{pid}/fd")):
        with Vanishing():
            found.append((path.name, str(path.readlink())))
    return found


def lost_files(pid: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield what a process has open or mapped under a name that is gone, and what it is."""
    for fd, target in open_files(pid):
        if target.endswith(_DELETED):
            with Vanishing():
                yield target.removesuffix(_DELETED), Path(f"/proc/{pid}/fd/{fd}").stat()
    for line in text(pid, "maps").splitlines():
        if line.endswith(_DELETED):
            start, end = (int(it, 16) for it in line.split(maxsplit=1)[0].split("-"))
            with Vanishing():
                found = Path(f"/proc/{pid}/map_files/{start:x}-{end:x}").stat()
                yield line.split(maxsplit=5)[5].removesuffix(_DELETED), found


def threads(pids: Sequence[int]) -> Iterator[tuple[int, int, dict[str, str]]]:
    """Yield process, thread and the fields of its status."""
    for pid in pids:
        for path in _entries(Path(f"/proc/{pid}/task")):
            lines = text(pid, f"task/{path.name}/status").splitlines()
            if lines:
                yield pid, int(path.name), dict(line.split(":\t", 1) for line in lines)


def text(pid: int, name: str) -> str:
    """Return the content of a file in the process's folder; nothing: there is none."""
    with Vanishing():
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    return ""


def _entries(folder: Path) -> list[Path]:
    with Vanishing():
        return list(folder.iterdir())
    return []


class Vanishing:
    """Does without what a process had that has ended meanwhile."""

    def __enter__(self) -> None:
        """Have nothing happened yet."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        """Pass on what is no sign of an end."""
        return isinstance(error, OSError) and (error.errno in _GONE or _ended(error))


def _ended(error: OSError) -> bool:
    """Tell whether what is forbidden is so since its process has just ended.

    The kernel says so of the links in /proc/PID/ns then (proc_ns_readlink in fs/proc/namespaces.c).
    """
    parts = Path(str(error.filename)).parts
    return error.errno == errno.EACCES and parts[1:2] == ("proc",) and not Path(*parts[:3]).exists()
