"""Where a snapshot's files are while they are made or used: process images in memory if they fit.

STATE/scratch/NAME/           work/, trees/, log, image/
STATE/scratch/NAME/criu       a folder, or a link into memory
MEMORY/NAME/                  process images
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spotrun.runtime import fitness
from spotrun.runtime.paths import Paths


def make(paths: Paths, name: str, *, images: int, memory: int) -> Path:
    """Return a new folder for `images` bytes of process images.

    They go to memory if `memory` bytes of it are free: those of the images and what else will be
    needed at the same time.
    """
    folder = place(paths, name)
    remove(paths, name)
    for made in ("work", "trees"):
        (folder / made).mkdir(parents=True, mode=0o700)
    if memory <= fitness.free_memory() and images <= fitness.free_disk(paths.memory):
        (paths.memory / name).mkdir(mode=0o700, parents=True)
        (folder / "criu").symlink_to(paths.memory / name)
    else:
        (folder / "criu").mkdir(mode=0o700)
    return folder


def place(paths: Paths, name: str) -> Path:
    """Return the folder of that name."""
    return paths.scratch / name


def remove(paths: Paths, name: str) -> None:
    """Remove it with what it has in memory; it need not be there."""
    shutil.rmtree(paths.memory / name, ignore_errors=True)
    shutil.rmtree(place(paths, name), ignore_errors=True)


@contextmanager
def held(paths: Paths, name: str) -> Iterator[None]:
    """Have a folder of that name until the end, or until this process dies.

    For work that has no journal; transactions keep theirs until they are settled.
    """
    lock = paths.scratch_locks / name
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield
    finally:
        remove(paths, name)
        lock.unlink(missing_ok=True)
        os.close(fd)


def sweep(paths: Paths) -> None:
    """Remove the folders whose holders have died."""
    for lock in paths.scratch_locks.iterdir():
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(paths, lock.name)
            lock.unlink(missing_ok=True)
        except BlockingIOError:
            continue
        finally:
            os.close(fd)
