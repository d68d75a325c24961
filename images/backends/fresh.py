"""Files that are written whole and durably beside a directory's objects, to be moved among them."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from spotrun.images.backends.base import Data, pieces
from spotrun.images.durable import sync_directory

_ABANDONED: Final = 24 * 3600.0
"""Seconds after which nobody can still be writing to a file."""


class FreshFiles:
    """Writes to `ROOT/~new`, and makes the folders below `ROOT`."""

    def __init__(self, root: Path) -> None:
        """Serve the objects below `root`."""
        self._root = root
        self._made: set[Path] = set()
        self._swept = False

    @contextmanager
    def written(self, data: Data) -> Iterator[Path]:
        """Give a durable file with that content; if it is still there in the end, it is removed."""
        folder = self._root / "~new"
        self.make(folder)
        fresh = folder / uuid.uuid4().hex
        try:
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                self._sweep(folder, now=os.fstat(fd).st_mtime)
                for piece in pieces(data):
                    file.write(piece)
                file.flush()
                os.fsync(fd)
            yield fresh
        finally:
            fresh.unlink(missing_ok=True)

    def make(self, folder: Path) -> None:
        """Make a folder, and those above it, durably."""
        if folder in self._made:
            return
        above = folder.parent
        if self._root in folder.parents or not above.is_dir():
            self.make(above)
        folder.mkdir(mode=0o700, exist_ok=True)
        with suppress(PermissionError):  # what lies above the store need not be ours
            sync_directory(above)  # also if another one made it: it need not be durable yet
        self._made.add(folder)

    def _sweep(self, folder: Path, *, now: float) -> None:
        """Remove, once, what writers that died have left, by the file system's own clock."""
        if self._swept:
            return
        self._swept = True
        for path in folder.iterdir():
            with suppress(FileNotFoundError):
                if now - path.stat().st_mtime > _ABANDONED:
                    path.unlink()
