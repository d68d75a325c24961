"""Things that are built once: named by their recipe, complete or not there."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

CACHE = Path(os.environ.get("SPOTRUN_LAB_CACHE", "/var/cache/spotrun-lab"))


def built(name: str, recipe: str, build: Callable[[Path], None]) -> Path:
    """Return the folder that `build` fills, built now if this recipe never was.

    Earlier recipes of the same name are removed; two processes do not build at once.
    """
    key = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    place = CACHE / name / key
    if place.is_dir():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            for old in place.parent.iterdir():
                shutil.rmtree(old)
            _build(place, build)
    return place


def _build(place: Path, build: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="building-") as scratch:
        folder = Path(scratch) / "new"
        folder.mkdir()
        build(folder)
        folder.rename(place)
