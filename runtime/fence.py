"""Until when a job may run here: its supervisor puts that off, its guard watches it.

The time is seconds since the boot (CLOCK_BOOTTIME), in a file that has eight bytes, so that one
write is seen whole.
"""

import math
import os
import struct
from pathlib import Path
from typing import Final

from spotrun.images.lease import boot_time
from spotrun.runtime.paths import Paths

_TIME: Final = struct.Struct("<d")
MARGIN: Final = 2.0
"""Seconds before the end in which a job is frozen: to find its container takes some."""


def put_off(paths: Paths, job: str, until: float) -> None:
    """Let the job run until then, by `boot_time`; a time that is past closes the fence."""
    fd = os.open(paths.fences / job, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(fd, _TIME.pack(until), 0)
    finally:
        os.close(fd)


def close(paths: Paths, job: str) -> None:
    """Let the job not run any more."""
    put_off(paths, job, -math.inf)


def mark(paths: Paths, job: str) -> None:
    """Note that the job is frozen for want of its lease, and so to be thawed when that is back."""
    _mark(paths, job).touch()


def unmark(paths: Paths, job: str) -> None:
    """Note that it is not, or no more."""
    _mark(paths, job).unlink(missing_ok=True)


def marked(paths: Paths, job: str) -> bool:
    """Tell whether it is."""
    return _mark(paths, job).exists()


def left(paths: Paths, job: str) -> float:
    """Return the seconds until the job must be frozen; a job without a lease has no end.

    One with a lease must be at once where nothing says until when.
    """
    try:
        raw = (paths.fences / job).read_bytes()
    except FileNotFoundError:
        raw = b""
    if len(raw) == _TIME.size:
        return float(_TIME.unpack(raw)[0]) - MARGIN - boot_time()
    return -math.inf if (paths.leases / f"{job}.json").exists() else math.inf


def remove(paths: Paths, job: str) -> None:
    """Let it run without end: nobody looks after it any more."""
    (paths.fences / job).unlink(missing_ok=True)
    unmark(paths, job)


def _mark(paths: Paths, job: str) -> Path:
    return paths.fences / f"{job}~frozen"
