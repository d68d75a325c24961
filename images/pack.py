"""Packs: objects of some 32 MiB that hold chunks in compressed, sealed frames.

    FRAME… TRAILER FOOTER

A frame is a few chunks that follow each other; the trailer says which, and its hash is the pack's
name. Trailer and footer together are the *tail*. `docs/format.md` has the bytes.
"""

import re
import secrets
import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import zstandard
from blake3 import blake3

from spotrun.images.backends.base import Piece
from spotrun.images.seal import SALT, TAG, Broken, Seal, decompressed

PACK_BYTES: Final = 32 << 20
"""Size at which a pack is full."""
FRAME_BYTES: Final = 1 << 20
"""Most bytes that a frame has uncompressed."""
CHUNK_BYTES: Final = 64 << 10
"""Most bytes that a chunk has."""
FRAME_CHUNKS: Final = 2**16 - 1
"""Most chunks that a frame has."""
NAME: Final = 32
_END: Final = b"spotpak1"
_FOOTER: Final = struct.Struct(f"<{SALT}sI{len(_END)}s")
FOOTER_BYTES: Final = _FOOTER.size
_ID: Final = re.compile("[0-9a-f]{64}")
_FRAME: Final = struct.Struct("<IIHB")
_CHUNK: Final = struct.Struct(f"<{NAME}sI")
_TRAILER_NUMBER: Final = 2**64 - 1
_CONTEXT: Final = b"pack"


class Codec(IntEnum):
    """How a frame's chunks are stored."""

    RAW = 0
    ZSTD = 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk's place in its frame."""

    name: bytes
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame's place in its pack; sizes in bytes."""

    number: int
    offset: int
    stored: int
    raw: int
    codec: Codec
    chunks: tuple[Chunk, ...]
    first: int
    """Number in the pack of its first chunk."""


@dataclass(frozen=True, slots=True)
class PackRef:
    """A pack as a manifest names it; sizes in bytes."""

    id: str
    size: int
    tail: int
    """Size of its trailer and footer."""
    used: int = 0
    """Bytes of chunks of it that are part of the snapshot."""

    @property
    def sound(self) -> bool:
        """Tell whether there can be such a pack."""
        return _ID.fullmatch(self.id) is not None and FOOTER_BYTES <= self.tail <= self.size


class PackWriter:
    """Collects the frames of one pack; for one thread."""

    def __init__(self, seal: Seal) -> None:
        """Begin a pack."""
        self._salt = secrets.token_bytes(SALT)
        self._box = seal.box(_CONTEXT, self._salt)
        self._compressors: dict[int, zstandard.ZstdCompressor] = {}
        self._frames: list[bytes] = []
        self._records: list[bytes] = []
        self.size = 0
        self.chunks = 0

    def add(self, names: Sequence[tuple[bytes, int]], raw: Piece, level: int) -> int:
        """Append a frame of chunks, given their names and sizes; return the bytes it takes."""
        if level not in self._compressors:
            self._compressors[level] = zstandard.ZstdCompressor(level=level)
        packed = self._compressors[level].compress(raw)
        codec = Codec.ZSTD if len(packed) < len(raw) - (len(raw) >> 5) else Codec.RAW
        sealed = self._box.seal(len(self._frames), packed if codec is Codec.ZSTD else raw)
        self._records.append(_FRAME.pack(len(sealed), len(raw), len(names), codec))
        self._records += [_CHUNK.pack(*it) for it in names]
        self._frames.append(sealed)
        self.size += len(sealed)
        self.chunks += len(names)
        return len(sealed)

    def finish(self) -> tuple[PackRef, Sequence[bytes]]:
        """Return what names the pack, and its content."""
        trailer = self._box.seal(_TRAILER_NUMBER, b"".join(self._records))
        footer = _FOOTER.pack(self._salt, len(trailer), _END)
        tail = len(trailer) + len(footer)
        ref = PackRef(_id(self._salt, trailer), self.size + tail, tail)
        return ref, [*self._frames, trailer, footer]


class Pack:
    """A pack whose tail has been read: what is in it, and how to open its frames."""

    def __init__(self, seal: Seal, ref: PackRef, tail: bytes) -> None:
        """Read the `ref.tail` last bytes, or raise Broken."""
        salt, length, _ = footer_of(tail)
        trailer = tail[: -_FOOTER.size]
        if len(tail) != ref.tail or len(trailer) != length or _id(salt, trailer) != ref.id:
            raise Broken("it has the content of another pack, or none")
        self.ref = ref
        self._box = seal.box(_CONTEXT, salt)
        self.frames = _frames(bytes(self._box.open(_TRAILER_NUMBER, trailer)))
        if sum(frame.stored for frame in self.frames) + ref.tail != ref.size:
            raise Broken("it is not as long as its frames are")
        self._firsts = [frame.first for frame in self.frames]
        self._chunks = sum(len(frame.chunks) for frame in self.frames)

    def frames_of(self, first: int, count: int) -> Sequence[Frame]:
        """Return the frames that have these chunks, or raise Broken if there are not as many."""
        last = first + count - 1
        if count < 1 or not 0 <= first <= last < self._chunks:
            raise Broken("it does not have as many chunks as a recipe says")
        return self.frames[self._frame_at(first) : self._frame_at(last) + 1]

    def _frame_at(self, chunk: int) -> int:
        return bisect_right(self._firsts, chunk) - 1

    @property
    def raw(self) -> int:
        """Bytes of all its chunks, uncompressed."""
        return sum(frame.raw for frame in self.frames)

    def open(self, frame: Frame, stored: Piece, *, named: bool = False) -> memoryview:
        """Return a frame's chunks, one behind the other, as `Box.open` does, or raise Broken."""
        packed = self._box.open(frame.number, stored, named=named)
        raw = decompressed(packed, most=frame.raw) if frame.codec is Codec.ZSTD else packed
        if len(raw) != frame.raw:
            raise Broken("a frame is not as long as its chunks are")
        return memoryview(raw)


def footer_of(end: bytes) -> tuple[bytes, int, int]:
    """Return salt, size of the trailer and size of the tail, from the last bytes of a pack."""
    if len(end) < _FOOTER.size:
        raise Broken("it is too short for a pack")
    salt, length, mark = _FOOTER.unpack(end[-_FOOTER.size :])
    if mark != _END:
        raise Broken("it does not end as a pack does")
    return salt, length, length + _FOOTER.size


def key_of(pack_id: str) -> str:
    """Return the key under which a backend has a pack."""
    return f"packs/{pack_id[:2]}/{pack_id}"


def _id(salt: bytes, trailer: Piece) -> str:
    return blake3(salt).update(trailer).hexdigest()


def _frames(records: bytes) -> tuple[Frame, ...]:
    found: list[Frame] = []
    at = offset = first = 0
    try:
        while at < len(records):
            stored, raw, count, codec = _FRAME.unpack_from(records, at)
            at += _FRAME.size
            end = at + count * _CHUNK.size
            chunks, start = [], 0
            for name, length in _CHUNK.iter_unpack(records[at:end]):
                chunks.append(Chunk(name, start, length))
                start += length
            if not chunks or len(chunks) != count or start != raw or stored < TAG:
                raise Broken("its trailer contradicts itself")
            if raw > FRAME_BYTES:
                raise Broken("a frame is larger than it may be")
            frame = Frame(len(found), offset, stored, raw, Codec(codec), tuple(chunks), first)
            found.append(frame)
            at, offset, first = end, offset + stored, first + count
    except (struct.error, ValueError) as error:
        raise Broken(f"its trailer makes no sense: {error}") from None
    return tuple(found)
