"""How far a child process has come that says nothing."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from spotrun.images.meter import Progress, often


def watched(
    folder: Path, total: int, tell: Callable[[Progress], None]
) -> AbstractContextManager[None]:
    """Tell how many of `total` bytes there are in a folder, while something writes them."""
    start = time.monotonic()

    def look() -> None:
        done = min(_size(folder), total)
        tell(Progress(done, total, done, time.monotonic() - start))

    return often(look)


def sent(total: int, lacking: int, tell: Callable[[Progress], None]) -> Callable[[int], None]:
    """Return who is told how much is written to one who lacks only so many of `total` bytes."""
    start, given = time.monotonic(), total - lacking

    def look(written: int) -> None:
        moved = min(written, lacking)  # what packs it up adds to it
        tell(Progress(given + moved, total, moved, time.monotonic() - start, given))

    return look


def _size(folder: Path) -> int:
    size = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size
