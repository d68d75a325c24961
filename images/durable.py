"""Files that survive a power cut: written beside, fsynced, renamed into place."""

import json
import os
from pathlib import Path
from typing import Any


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace `path` by `data`: after a crash it has either its old or its new content."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_json(path: Path, document: Any) -> None:  # noqa: ANN401 # any JSON document
    """Replace `path` by the document, indented, as `write_atomic` does."""
    write_atomic(path, json.dumps(document, indent=1, sort_keys=True).encode() + b"\n")


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
