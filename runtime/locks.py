"""One spotrun at a time works on a job: a lock file each, held as long as the work goes on."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from pathlib import Path

from spotrun.images.errors import JobBusy


class Need(Enum):
    """What a command asks of a job's lock."""

    NONE = auto()
    FREE = auto()
    """Nobody may hold it when the command begins."""
    HELD = auto()
    """It is held until the command has ended."""


@dataclass(frozen=True, slots=True)
class JobLock:
    """A held lock; children that get `fd` hold it too until they end."""

    job: str
    fd: int


@contextmanager
def hold(folder: Path, job: str, verb: str, now: datetime, *, wait: bool) -> Iterator[JobLock]:
    """Hold the job's lock, or raise JobBusy naming who holds it and since when.

    With `wait`, wait for the holder to end instead; so do we where it is dead and only a child
    of it, CRIU in a dump, has still to come to its end.
    """
    path = folder / f"{job}.lock"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(fd)
            dead = holder["pid"] != "?" and not Path(f"/proc/{holder['pid']}").exists()
            if not wait and not dead:
                raise JobBusy(
                    job=job, pid=holder["pid"], verb=holder["verb"], since=holder["since"]
                ) from None
            fcntl.flock(fd, fcntl.LOCK_EX)
        mine = {"pid": os.getpid(), "verb": verb, "since": now.isoformat(timespec="seconds")}
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(mine).encode(), 0)
        yield JobLock(job, fd)
    finally:
        os.close(fd)


def is_held(folder: Path, job: str) -> bool:
    """Tell whether somebody holds a lock; who wants it just now must bear with our looking."""
    try:
        fd = os.open(folder / f"{job}.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def holder(folder: Path, job: str) -> int | None:
    """Return the pid of who holds a lock, if somebody does and has said so."""
    if not is_held(folder, job):
        return None
    fd = os.open(folder / f"{job}.lock", os.O_RDONLY | os.O_CLOEXEC)
    try:
        pid = _holder(fd)["pid"]
    finally:
        os.close(fd)
    return pid if isinstance(pid, int) else None


def _holder(fd: int) -> dict[str, object]:
    """Read who holds a lock; it may be just writing that down."""
    try:
        holder = json.loads(os.pread(fd, 4096, 0))
    except ValueError:
        holder = {}
    return {"pid": "?", "verb": "?", "since": "?", **holder}
