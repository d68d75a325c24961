"""How far a child process has come that writes files and says nothing."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from spotrun.images.meter import Progress

_INTERVAL: Final = 0.2
"""Seconds between two looks."""


@contextmanager
def watched(folder: Path, total: int, tell: Callable[[Progress], None]) -> Iterator[None]:
    """Tell how many of `total` bytes there are in a folder, while something writes them."""
    ended, start = threading.Event(), time.monotonic()

    def look() -> None:
        while not ended.wait(_INTERVAL):
            done = min(_size(folder), total)
            tell(Progress(done, total, done, time.monotonic() - start))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _size(folder: Path) -> int:
    size = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size
