"""What guards the bytes of a store: hashes against accidents, or authenticated encryption.

A box holds the pieces of one object: each is sealed under its number, and opens only in a box of
the same context and salt, under the same number. `docs/format.md` has the bytes.
"""

import secrets
from dataclasses import dataclass
from typing import Final, Protocol

import zstandard
from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from spotrun.images.backends.base import Piece

TAG: Final = 16
"""Bytes that sealing adds to a piece."""
SALT: Final = 32
KEY: Final = 32
_DOCUMENT: Final = b"spotrun document 1\n"
_NONCE: Final = 12
_MOST: Final = 64 << 20
"""Most bytes that a document has."""


class Broken(Exception):
    """Stored bytes are not what was written under that name, or not with this key."""


class Box(Protocol):
    """Seals the numbered pieces of one object; a number is used once."""

    def seal(self, number: int, piece: Piece) -> bytes:
        """Return the piece, guarded: `TAG` bytes longer."""
        ...

    def open(self, number: int, sealed: Piece, *, named: bool = False) -> bytes | memoryview:
        """Return the piece, or raise Broken.

        What is `named` is going to be compared with the names of its chunks; a hash of its own
        then proves nothing more, and is left out.
        """
        ...


class Seal(Protocol):
    """The way in which a whole store is guarded."""

    store: str
    """Its id: a document of one store does not open in another; a pack may."""

    def name(self, chunk: Piece) -> bytes:
        """Return the 32 bytes that name a chunk by its content."""
        ...

    def box(self, context: bytes, salt: bytes) -> Box:
        """Return the box of one object; the salt is random, and no secret."""
        ...


class Plain:
    """Integrity without a key: whoever can write to the store can also forge."""

    def __init__(self, store: str) -> None:
        """Guard the store of that id."""
        self.store = store

    def name(self, chunk: Piece) -> bytes:
        """Hash it with BLAKE3."""
        return blake3(chunk).digest()

    def box(self, context: bytes, salt: bytes) -> Box:
        """Return a box whose tags are truncated hashes."""
        return _PlainBox(blake3(salt + context).digest())


class Keyed:
    """AES-256-GCM under a key of its own for every object; chunk names by a keyed hash."""

    def __init__(self, store: str, master: bytes) -> None:
        """Guard the store of that id; its master key is `KEY` random bytes."""
        self.store = store
        self._names = blake3(b"spotrun chunk names 1", key=master).digest()
        self._boxes = blake3(b"spotrun boxes 1", key=master).digest()

    def name(self, chunk: Piece) -> bytes:
        """Hash it with BLAKE3 under a key, so that a name does not tell what a chunk is."""
        return blake3(chunk, key=self._names).digest()

    def box(self, context: bytes, salt: bytes) -> Box:
        """Return a box with a key derived from the salt, so that numbers can be the nonces."""
        return _KeyedBox(AESGCM(blake3(salt + context, key=self._boxes).digest()))


def seal_document(seal: Seal, key: str, body: bytes) -> bytes:
    """Return a small object that opens under this key of the backend only."""
    salt = secrets.token_bytes(SALT)
    packed = zstandard.compress(body)
    return _DOCUMENT + salt + _document_box(seal, key, salt).seal(0, packed)


def open_document(seal: Seal, key: str, raw: bytes) -> bytes:
    """Return the body of a small object, or raise Broken."""
    head = len(_DOCUMENT) + SALT
    if not raw.startswith(_DOCUMENT) or len(raw) < head + TAG:
        raise Broken(f"{key} is not a document of a spotrun store")
    packed = _document_box(seal, key, raw[len(_DOCUMENT) : head]).open(0, raw[head:])
    return decompressed(packed, most=_MOST)


def decompressed(packed: Piece, *, most: int) -> bytes:
    """Decompress what says that it has at most so many bytes, or raise Broken."""
    try:
        if not 0 <= zstandard.frame_content_size(packed) <= most:
            raise Broken("it is larger than it may be")
        return zstandard.ZstdDecompressor().decompress(packed)
    except zstandard.ZstdError as error:
        raise Broken(f"it cannot be decompressed: {error}") from None


def _document_box(seal: Seal, key: str, salt: bytes) -> Box:
    return seal.box(f"document {seal.store} {key}".encode(), salt)


@dataclass(frozen=True, slots=True)
class _PlainBox:
    _key: bytes

    def seal(self, number: int, piece: Piece) -> bytes:
        return b"".join((piece, self._tag(number, piece)))

    def open(self, number: int, sealed: Piece, *, named: bool = False) -> memoryview:
        view = memoryview(sealed)
        if named:
            return view[:-TAG]
        if len(view) < TAG or self._tag(number, view[:-TAG]) != view[-TAG:].tobytes():
            raise Broken("its hash does not match")
        return view[:-TAG]

    def _tag(self, number: int, piece: Piece) -> bytes:
        return blake3(number.to_bytes(8, "little"), key=self._key).update(piece).digest(TAG)


@dataclass(frozen=True, slots=True)
class _KeyedBox:
    _cipher: AESGCM

    def seal(self, number: int, piece: Piece) -> bytes:
        return self._cipher.encrypt(number.to_bytes(_NONCE, "little"), piece, None)

    def open(self, number: int, sealed: Piece, *, named: bool = False) -> bytes:  # noqa: ARG002 # its tag costs nothing
        try:
            return self._cipher.decrypt(number.to_bytes(_NONCE, "little"), sealed, None)
        except (InvalidTag, ValueError):
            raise Broken("it is not what was written, or not with this key") from None
