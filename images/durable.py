"""Files that survive a power cut: written beside, fsynced, renamed into place."""

import json
import os
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Any, Final

from spotrun.images.errors import NoRoom

_FULL: Final = frozenset((ENOSPC, EDQUOT))
_BLOCK: Final = 512
"""Bytes that `st_blocks` counts in (stat(2))."""


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace `path` by `data`: after a crash it has either its old or its new content.

    NoRoom: it has its old one.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise NoRoom(folder=path.parent) if error.errno in _FULL else error from error
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def overwrite(path: Path, data: bytes) -> None:
    """Replace what is in a file where there is no room beside it, but enough in its own blocks.

    After a power cut it may have anything: this is for what must be written all the same.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if len(data) > os.fstat(fd).st_blocks * _BLOCK:
            raise NoRoom(folder=path.parent)
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
        os.fsync(fd)
    finally:
        os.close(fd)


def write_json(path: Path, document: Any) -> None:  # noqa: ANN401 # any JSON document
    """Replace `path` by the document, indented, as `write_atomic` does."""
    write_atomic(path, indented(document))


def indented(document: Any) -> bytes:  # noqa: ANN401 # any JSON document
    """Return a JSON document for people, too."""
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_tree(root: Path) -> None:
    """Make every file and name under `root` durable."""
    for folder, _, files in os.walk(root):
        for name in files:
            fd = os.open(Path(folder, name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        sync_directory(Path(folder))
