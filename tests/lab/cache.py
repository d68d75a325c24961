"""Things that are built once: named by their recipe, complete or not there."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

CACHE = Path(os.environ.get("SPOTRUN_LAB_CACHE", "/var/cache/spotrun-lab"))
_BUILDING = "building"
_in_use: dict[Path, int] = {}
"""Open and locked folders: until this process ends, no other removes them."""


def built(name: str, recipe: str, build: Callable[[Path], None]) -> Path:
    """Return the folder that `build` fills, built now if this recipe never was.

    Two processes do not build at once. Earlier recipes of the same name are removed, unless a
    process still uses them.
    """
    place = CACHE / name / hashlib.sha256(recipe.encode()).hexdigest()[:12]
    if place in _in_use or _use(place):
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _use(place):
            half = place.with_name(_BUILDING)
            if half.exists():
                shutil.rmtree(half)
            for old in list(place.parent.iterdir()):
                _remove_unused(old)
            _build(place, build)
            _use(place)
    return place


def _use(place: Path) -> bool:
    """Keep the folder from removal; tell whether it is there."""
    try:
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    fcntl.flock(folder, fcntl.LOCK_SH)
    if not place.is_dir():  # it was removed while we waited for the lock
        os.close(folder)
        return False
    _in_use[place] = folder
    return True


def _remove_unused(old: Path) -> None:
    folder = os.open(old, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        # not half-removed under its complete name, should this process be killed meanwhile
        shutil.rmtree(old.rename(old.with_name(_BUILDING)))
    finally:
        os.close(folder)


def _build(place: Path, build: Callable[[Path], None]) -> None:
    folder = place.with_name(_BUILDING)
    folder.mkdir()
    try:
        build(folder)
    except BaseException:
        shutil.rmtree(folder)
        raise
    folder.rename(place)
