"""Where a snapshot's files are while they are made or used: process images in memory if they fit.

STATE/scratch/NAME/           work/, trees/, log, image/
STATE/scratch/NAME/criu       a folder, or a link into memory
MEMORY/NAME/                  process images
"""

import shutil
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
        (folder / "criu").mkdir()
    return folder


def place(paths: Paths, name: str) -> Path:
    """Return the folder of that name."""
    return paths.scratch / name


def remove(paths: Paths, name: str) -> None:
    """Remove it with what it has in memory; it need not be there."""
    shutil.rmtree(paths.memory / name, ignore_errors=True)
    shutil.rmtree(place(paths, name), ignore_errors=True)
