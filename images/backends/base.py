"""The contract of a backend: what a store needs of the place that keeps its bytes."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

Piece = bytes | bytearray | memoryview
Data = Piece | Sequence[Piece]
"""The content of an object, in one buffer or in several that follow each other."""

_PART: Final = r"(?!\.\.?(?:/|$))[A-Za-z0-9._-]+"
_KEY: Final = re.compile(rf"{_PART}(?:/{_PART})*")


class ObjectMissing(Exception):
    """There is no object of that key."""


class ObjectTooShort(Exception):
    """The object ends before the range that was to be read does."""


class ObjectExists(Exception):
    """There is another object of that key."""


class ObjectChanged(Exception):
    """The object is not the one that the tag names, or is gone."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """An object in a list."""

    key: str
    size: int
    modified: datetime
    """By the store's own clock."""


class Packs(Protocol):
    """What the way of the bytes needs of a backend; the contract is Backend's."""

    def read(self, key: str, offset: int, length: int) -> Piece:
        """Return exactly `length` > 0 bytes from `offset` on; ObjectMissing, ObjectTooShort."""
        ...

    def put(self, key: str, data: Data) -> None:
        """Write an object, in the place of one that is there."""
        ...


class Backend(Packs, Protocol):
    """Keeps objects: bytes under a key.

    Callers may rely on:
    - An object is there whole or not at all, whatever happens to the writer or the connection.
    - What has returned is durable, and seen by every reader on every host.
    - All methods may be called from several threads at once.
    - Passing trouble has been waited out: StoreUnavailable is worth no other try right away.
      A write that raised it may have been done or not, or may be done yet.
    - `str()` is what a user calls the store; it has no secrets in it.

    Implementers may rely on:
    - A key consists of parts of `[A-Za-z0-9._-]` joined by `/`; no part is `.` or `..`, and no
      key is a folder of another one (`is_key` tells).
    - A key is either written by `put`, always with the same content or by one writer, or by
      `create` and `replace`.
    - Two writers never `create` or `replace` with the same content, unless it makes no
      difference which of them succeeded. For then a condition that is not met need not mean
      that another was faster: our own write may have arrived and its acknowledgement got lost.
    """

    def get(self, key: str) -> bytes:
        """Return an object; ObjectMissing: there is none."""
        ...

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        """Return an object and the tag that `replace` takes; ObjectMissing: there is none."""
        ...

    def create(self, key: str, data: Data) -> str:
        """Write an object if there is none, and return its tag; ObjectExists: there is one.

        One with the same content is taken for ours.
        """
        ...

    def replace(self, key: str, data: Data, tag: str) -> str:
        """Write an object in the place of the one with that tag, and return the new tag.

        ObjectChanged: it has another one, or is gone. One with the same content is taken for
        ours. The tag of an object that gets back an earlier content may be the earlier one.
        """
        ...

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yield the objects whose key begins with `prefix`, sorted by key.

        `prefix` is empty or ends with `/`. What is written or deleted meanwhile may be in it.
        """
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; those that are not there are as good as deleted."""
        ...

    def free(self) -> int | None:
        """Return how many bytes can still be written; None: as many as one pays for."""
        ...


def is_key(text: str) -> bool:
    """Tell whether a text can be a key."""
    return _KEY.fullmatch(text) is not None


def pieces(data: Data) -> Sequence[Piece]:
    """Return the buffers that the content consists of."""
    return [data] if isinstance(data, Piece) else data


def joined(data: Data) -> bytes:
    """Return the content as one buffer; bytes are not copied."""
    return data if isinstance(data, bytes) else b"".join(pieces(data))


def content_tag(content: bytes) -> str:
    """Return a tag that tells contents apart, for stores that have none of their own."""
    return hashlib.sha256(content).hexdigest()
