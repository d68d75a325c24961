"""What is stored opens only where, and as what, it was written."""

from typing import Final

import pytest
import zstandard

from spotrun.images import seal
from spotrun.images.seal import SALT, TAG, Broken, Keyed, Plain, Seal, open_document, seal_document
from tests.fakes.stores import MASTER, STORE

_SEALS: Final[list[Seal]] = [Plain(STORE), Keyed(STORE, MASTER)]
_BOTH = pytest.mark.parametrize("sealed_by", _SEALS, ids=["plain", "keyed"])
_SALT = bytes(SALT)
_CHUNK = b"what is stored" * 100


@_BOTH
@pytest.mark.parametrize("piece", [b"", b"x", _CHUNK], ids=len)
def test_piece_comes_back(sealed_by: Seal, piece: bytes) -> None:
    """It is a tag longer meanwhile, and may be of any buffer."""
    box = sealed_by.box(b"pack", _SALT)
    for given in (piece, bytearray(piece), memoryview(piece)):
        sealed = box.seal(3, given)
        assert len(sealed) == len(piece) + TAG
        assert bytes(box.open(3, memoryview(sealed))) == piece


@_BOTH
def test_every_flipped_byte_is_noticed(sealed_by: Seal) -> None:
    """In the content as in the tag."""
    box = sealed_by.box(b"pack", _SALT)
    sealed = bytearray(box.seal(0, b"content"))
    for at in range(len(sealed)):
        sealed[at] ^= 0x10
        with pytest.raises(Broken):
            box.open(0, sealed)
        sealed[at] ^= 0x10
    assert bytes(box.open(0, sealed)) == b"content"


@_BOTH
@pytest.mark.parametrize("length", [0, 1, TAG - 1, TAG, TAG + 6])
def test_piece_that_is_cut_is_noticed(sealed_by: Seal, length: int) -> None:
    """Also where no tag is left."""
    box = sealed_by.box(b"pack", _SALT)
    with pytest.raises(Broken):
        box.open(0, box.seal(0, b"content")[:length])


@_BOTH
def test_piece_opens_nowhere_else(sealed_by: Seal) -> None:
    """Neither under another number, nor in a box of another salt or context."""
    sealed = sealed_by.box(b"pack", _SALT).seal(0, _CHUNK)
    for context, salt, number in [
        (b"pack", _SALT, 1),
        (b"pack", b"\1" + _SALT[1:], 0),
        (b"document", _SALT, 0),
    ]:
        with pytest.raises(Broken):
            sealed_by.box(context, salt).open(number, sealed)


def test_piece_opens_with_its_key_only() -> None:
    """Another key, or none, makes nothing of it."""
    sealed = Keyed(STORE, MASTER).box(b"pack", _SALT).seal(0, _CHUNK)
    for other in (Keyed(STORE, MASTER[::-1]), Plain(STORE)):
        with pytest.raises(Broken):
            other.box(b"pack", _SALT).open(0, sealed)


def test_chunk_names_tell_nothing_without_the_key() -> None:
    """The same chunk has the same name in one store, and another one in each other."""
    names = [it.name(_CHUNK) for it in [*_SEALS, Keyed(STORE, MASTER[::-1])]]
    assert [len(name) for name in names] == [32, 32, 32]
    assert len(set(names)) == 3
    assert names[1] == Keyed("another", MASTER).name(memoryview(_CHUNK))


def test_equal_pieces_of_two_objects_look_different() -> None:
    """Salts are random, so that an observer cannot tell that it is the same."""
    keyed = Keyed(STORE, MASTER)
    first, second = (seal_document(keyed, "holds/x", b"{}") for _ in range(2))
    assert first[-TAG - 2 :] != second[-TAG - 2 :]


@_BOTH
@pytest.mark.parametrize("body", [b"", b"{}", _CHUNK * 100], ids=len)
def test_document_comes_back(sealed_by: Seal, body: bytes) -> None:
    """Whatever its size; it is compressed meanwhile."""
    raw = seal_document(sealed_by, "images/x", body)
    assert open_document(sealed_by, "images/x", raw) == body
    assert len(raw) < len(body) + 100


@_BOTH
def test_document_opens_under_its_own_name_only(sealed_by: Seal) -> None:
    """So that one cannot be put in the place of another."""
    raw = seal_document(sealed_by, "snapshots/a/1", b"{}")
    with pytest.raises(Broken):
        open_document(sealed_by, "snapshots/a/2", raw)


@pytest.mark.parametrize(
    "other", [Plain("another"), Keyed("another", MASTER)], ids=["plain", "keyed"]
)
def test_document_of_another_store_is_refused(other: Seal) -> None:
    """Even if both have the same key."""
    mine = Plain(STORE) if isinstance(other, Plain) else Keyed(STORE, MASTER)
    with pytest.raises(Broken):
        open_document(mine, "holds/x", seal_document(other, "holds/x", b"{}"))


@_BOTH
@pytest.mark.parametrize("raw", [b"", b"{}", b"spotrun document 2\n" + bytes(99)], ids=len)
def test_what_is_no_document_is_named(sealed_by: Seal, raw: bytes) -> None:
    """Also a document of a later kind."""
    with pytest.raises(Broken, match=r"^holds/x is not a document of a spotrun store$"):
        open_document(sealed_by, "holds/x", raw)


def _unpacked(packed: bytes, most: int = 100) -> bytes:
    return seal.decompressed(packed, most=most)


def test_what_would_be_too_large_is_not_decompressed() -> None:
    """A few bytes can say that they are many."""
    assert _unpacked(zstandard.compress(bytes(100))) == bytes(100)
    with pytest.raises(Broken, match="larger than it may be"):
        _unpacked(zstandard.compress(bytes(101)))


def test_what_does_not_say_its_size_is_not_decompressed() -> None:
    """It might be of any."""
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(b"x")
    with pytest.raises(Broken, match="larger than it may be"):
        _unpacked(packed)


@pytest.mark.parametrize(
    "packed", [b"", b"no", b"nothing compressed", zstandard.compress(_CHUNK)[:-5]], ids=len
)
def test_what_cannot_be_decompressed_is_broken(packed: bytes) -> None:
    """The reason is told."""
    with pytest.raises(Broken, match="it cannot be decompressed"):
        _unpacked(packed, most=1 << 20)
