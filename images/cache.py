"""Packs that this host has sent, kept here as well: to go on with a job at home is then cheap.

A file is named by its pack and by the hash of its content, which is proved before the first read.
Nobody may conclude from the cache that a store has a pack.
"""

import mmap
import os
import secrets
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from blake3 import blake3

from spotrun.images.backends.base import Data, Packs, Piece, pieces

_MOST: Final = 16 << 30
"""Bytes that the cache has at most."""
_SHARE: Final = 4
"""It leaves three quarters of what would be free without it."""


class PackCache:
    """The packs of a store, and copies of them here; those used last stay (base.Packs)."""

    def __init__(self, packs: Packs, folder: Path, most: int = _MOST) -> None:
        """Use that folder, which is made when first written to."""
        self._packs = packs
        self._folder = folder
        self._most = most
        self._proved: dict[str, Path | None] = {}
        self._lock = threading.Lock()

    def read(self, key: str, offset: int, length: int) -> Piece:
        """Return a range of a pack, from here if it is here."""
        path = self._find(_name(key))
        if path is not None:
            with suppress(OSError), path.open("rb", buffering=0) as file:
                found = os.pread(file.fileno(), length, offset)
                if len(found) == length:
                    return found
        return self._packs.read(key, offset, length)

    def put(self, key: str, data: Data) -> None:
        """Store a pack, and keep it here if there is room; a full disk is no error."""
        self._packs.put(key, data)
        digest = blake3()
        for piece in pieces(data):
            digest.update(piece)
        fresh = self._folder / f"~{secrets.token_hex(8)}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with fresh.open("xb", buffering=0) as file:
                for piece in pieces(data):
                    file.write(piece)
            fresh.rename(self._folder / f"{_name(key)}-{digest.hexdigest(length=16)}")
            self._shrink()
        except OSError:
            with suppress(OSError):
                fresh.unlink()

    def _find(self, pack_id: str) -> Path | None:
        """Return the file of a pack, proved once a process."""
        with self._lock:
            if pack_id not in self._proved:
                found = next(self._folder.glob(f"{pack_id}-*"), None)
                self._proved[pack_id] = found if found and _is_whole(found) else None
            return self._proved[pack_id]

    def _shrink(self) -> None:
        """Remove what was used longest ago, until the rest fits."""
        with self._lock:
            found = sorted((path.stat().st_mtime, path) for path in self._folder.iterdir())
            sizes = {path: path.stat().st_size for _, path in found}
            used = sum(sizes.values())
            room = min(self._most, (shutil.disk_usage(self._folder).free + used) // _SHARE)
            for _, path in found:
                if used <= room:
                    return
                path.unlink(missing_ok=True)
                used -= sizes[path]


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _is_whole(path: Path) -> bool:
    """Tell whether a file has the content that its name says; one that has not is removed."""
    with (
        suppress(OSError, ValueError),
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        if blake3(content).hexdigest(length=16) == path.name.rpartition("-")[2]:
            os.utime(path)
            return True
    path.unlink(missing_ok=True)
    return False
