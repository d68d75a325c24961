"""Objects as files below a directory of a local or shared file system.

    ROOT/a/b/c      the object `a/b/c`
    ROOT/~new/      files that are not whole yet (fresh.py)
    ROOT/~lock      held while an object is replaced or deleted

No key has a `~`. A shared file system must have hard links and let hosts exclude each other by
flock(2): local ones, NFS, CephFS, Lustre (with `flock`) and EFS do.
"""

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from spotrun.images.backends.base import (
    Data,
    Entry,
    ObjectChanged,
    ObjectExists,
    ObjectMissing,
    ObjectTooShort,
    content_tag,
    is_key,
    joined,
)
from spotrun.images.backends.fresh import FreshFiles
from spotrun.images.durable import sync_directory
from spotrun.images.errors import StoreDenied, StoreFull, StoreUnavailable

_NOT_A_FILE: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


class DirectoryBackend:
    """Keeps objects as files that only their owner can read (base.Backend)."""

    def __init__(self, root: Path) -> None:
        """Use the files below `root`; it is made when first written to."""
        self.root = root
        self._fresh = FreshFiles(root)

    def __str__(self) -> str:
        """Return what a user calls it."""
        return str(self.root)

    def get(self, key: str) -> bytes:
        """Return a file's content."""
        with self._told(), self._missing(key):
            return self._path(key).read_bytes()

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        """Return a file's content and the hash of it."""
        content = self.get(key)
        return content, content_tag(content)

    def read(self, key: str, offset: int, length: int) -> bytes:
        """Return a range of a file."""
        with self._told(), self._missing(key), self._path(key).open("rb", buffering=0) as file:
            found = os.pread(file.fileno(), length, offset)
        if len(found) < length:
            raise ObjectTooShort(key)
        return found

    def put(self, key: str, data: Data) -> None:
        """Rename a whole file to its place."""
        with self._told(), self._fresh.written(data) as fresh:
            path = self._place(key)
            fresh.rename(path)
            sync_directory(path.parent)

    def create(self, key: str, data: Data) -> str:
        """Link a whole file to its place, which fails where there is one."""
        with self._told(), self._fresh.written(data) as fresh:
            path = self._place(key)
            try:
                path.hardlink_to(fresh)
            except FileExistsError:
                if _content(path) != joined(data):
                    raise ObjectExists(key) from None
            sync_directory(path.parent)  # one that is there need not be durable yet
        return content_tag(joined(data))

    def replace(self, key: str, data: Data, tag: str) -> str:
        """Rename a whole file to its place while nobody else does."""
        with self._told(), self._fresh.written(data) as fresh, self._locked():
            path = self._place(key)
            found = _content(path)
            if found is None or (content_tag(found) != tag and found != joined(data)):
                raise ObjectChanged(key)
            fresh.rename(path)
            sync_directory(path.parent)
        return content_tag(joined(data))

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yield the files whose name can be a key."""
        with self._told():
            found = sorted(self._entries(self.root / prefix))
        yield from found

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files; their folders stay."""
        touched = set()
        with self._told():
            for path in map(self._path, keys):
                with suppress(*_NOT_A_FILE), self._locked():
                    path.unlink()
                    touched.add(path.parent)
            for folder in touched:
                sync_directory(folder)

    def free(self) -> int | None:
        """Ask the file system, which need not have the folder yet."""
        existing = next(it for it in (self.root, *self.root.parents) if it.exists())
        return shutil.disk_usage(existing).free

    def _entries(self, start: Path) -> Iterator[Entry]:
        for folder, _, names in os.walk(start, onerror=_raise):
            for path in (Path(folder, name) for name in names):
                key = str(path.relative_to(self.root))
                with suppress(FileNotFoundError):
                    found = path.lstat()
                    if is_key(key) and stat.S_ISREG(found.st_mode):
                        modified = datetime.fromtimestamp(found.st_mtime, UTC)
                        yield Entry(key, found.st_size, modified)

    def _path(self, key: str) -> Path:
        return self.root / key

    def _place(self, key: str) -> Path:
        """Return the path of a key whose folder is there, durably."""
        path = self._path(key)
        self._fresh.make(path.parent)
        return path

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Exclude all others, on whatever host, who replace or delete."""
        lock = os.open(self.root / "~lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    @contextmanager
    def _missing(self, key: str) -> Iterator[None]:
        try:
            yield
        except _NOT_A_FILE:
            raise ObjectMissing(key) from None

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what the file system says into an error for users."""
        try:
            yield
        except OSError as error:
            reason = f"{error.strerror} ({error.filename or self.root})"
            raise _kind(error)(store=self, reason=reason) from error


def _kind(error: OSError) -> type[StoreUnavailable]:
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return StoreFull
    return (
        StoreDenied
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}
        else (StoreUnavailable)
    )


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _raise(error: OSError) -> None:
    """Let a walk skip folders that are not there, and nothing else."""
    if not isinstance(error, FileNotFoundError):
        raise error
