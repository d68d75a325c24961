"""A pack gives back its chunks, and nothing else."""

import struct
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import zstandard

from spotrun.images.pack import (
    FRAME_BYTES,
    FRAME_CHUNKS,
    Codec,
    Pack,
    PackRef,
    PackWriter,
    footer_of,
    key_of,
)
from spotrun.images.seal import SALT, TAG, Broken, Keyed, Plain, Seal
from tests.fakes.stores import MASTER, STORE

_BOTH = pytest.mark.parametrize(
    "seal", [Plain(STORE), Keyed(STORE, MASTER)], ids=["plain", "keyed"]
)
_RANDOM = Random(3)
_NOISE = [_RANDOM.randbytes(size) for size in (60_000, 1, 5_000)]
_TEXT = [bytes([65 + number]) * 20_000 for number in range(4)]


def _made(seal: Seal, *frames: Sequence[bytes]) -> tuple[PackRef, bytes]:
    writer = PackWriter(seal)
    for chunks in frames:
        writer.add([(seal.name(it), len(it)) for it in chunks], b"".join(chunks), 1)
    ref, pieces = writer.finish()
    return ref, b"".join(pieces)


def _opened(seal: Seal, ref: PackRef, raw: bytes) -> Pack:
    return Pack(seal, ref, raw[-ref.tail :])


@_BOTH
def test_chunks_come_back_with_their_names(seal: Seal) -> None:
    """Frames follow each other, each opened by itself; text is compressed, noise is not."""
    ref, raw = _made(seal, _NOISE, _TEXT)
    pack = _opened(seal, ref, raw)
    assert [frame.codec for frame in pack.frames] == [Codec.RAW, Codec.ZSTD]
    for frame, chunks in zip(pack.frames, (_NOISE, _TEXT), strict=True):
        opened = pack.open(frame, raw[frame.offset : frame.offset + frame.stored])
        found = [opened[it.start : it.start + it.length].tobytes() for it in frame.chunks]
        assert found == chunks
        assert [it.name for it in frame.chunks] == [seal.name(it) for it in chunks]
    assert pack.raw == sum(map(len, (*_NOISE, *_TEXT)))


@_BOTH
def test_pack_says_how_large_it_is(seal: Seal) -> None:
    """Its reference, its end and its length agree."""
    ref, raw = _made(seal, _NOISE, _TEXT)
    assert ref.sound
    assert len(raw) == ref.size
    assert footer_of(raw)[2] == ref.tail
    assert sum(map(len, _NOISE)) < ref.size < sum(map(len, _NOISE)) + 5_000


def test_same_chunks_make_another_pack_each_time() -> None:
    """Salts differ, and so do the names of packs: no two writers write the same object."""
    assert _made(Plain(STORE), _TEXT)[0].id != _made(Plain(STORE), _TEXT)[0].id


@_BOTH
@pytest.mark.parametrize(
    ("first", "count", "frames"),
    [(0, 1, [0]), (2, 1, [0]), (3, 1, [1]), (2, 2, [0, 1]), (0, 7, [0, 1]), (3, 4, [1])],
)
def test_frames_are_found_by_chunk(seal: Seal, first: int, count: int, frames: list[int]) -> None:
    """Chunks are counted through the whole pack."""
    pack = _opened(seal, *_made(seal, _NOISE, _TEXT))
    assert [frame.number for frame in pack.frames_of(first, count)] == frames


@pytest.mark.parametrize(("first", "count"), [(0, 8), (7, 1), (-1, 1), (0, 0), (3, -1)])
def test_chunk_that_it_does_not_have_is_named(first: int, count: int) -> None:
    """A recipe may not fit its packs."""
    pack = _opened(Plain(STORE), *_made(Plain(STORE), _NOISE, _TEXT))
    with pytest.raises(Broken, match="as many chunks as a recipe says"):
        pack.frames_of(first, count)


@_BOTH
def test_every_flipped_byte_of_the_tail_is_noticed(seal: Seal) -> None:
    """Salt, lengths, names and mark: the pack's id covers them."""
    ref, raw = _made(seal, _NOISE, _TEXT)
    tail = bytearray(raw[-ref.tail :])
    for at in range(len(tail)):
        tail[at] ^= 1
        with pytest.raises(Broken):
            Pack(seal, ref, bytes(tail))
        tail[at] ^= 1
    Pack(seal, ref, bytes(tail))


@_BOTH
def test_frames_do_not_change_places(seal: Seal) -> None:
    """Each opens under its own number only, even if both are of one size."""
    ref, raw = _made(seal, _NOISE, _NOISE[::-1])
    pack = _opened(seal, ref, raw)
    first, second = pack.frames
    assert first.stored == second.stored
    with pytest.raises(Broken):
        pack.open(first, raw[second.offset : second.offset + second.stored])


@pytest.mark.parametrize("length", [0, 1, 43, 44, 100])
def test_tail_that_is_cut_is_noticed(length: int) -> None:
    """Whatever is left of it."""
    ref, raw = _made(Plain(STORE), _TEXT)
    with pytest.raises(Broken):
        Pack(Plain(STORE), ref, raw[len(raw) - length :])


@pytest.mark.parametrize("change", [{"size": 1}, {"tail": -1}, {"id": "0" * 64}], ids=str)
def test_reference_that_is_wrong_is_noticed(change: dict[str, Any]) -> None:
    """In whichever of its parts."""
    ref, raw = _made(Plain(STORE), _TEXT)
    wrong = {key: getattr(ref, key) + it if key != "id" else it for key, it in change.items()}
    with pytest.raises(Broken):
        Pack(Plain(STORE), replace(ref, **wrong), raw[-ref.tail :])


@pytest.mark.parametrize(
    "change", [{"id": "../../store.json"}, {"id": "A" * 64}, {"tail": 0}, {"size": 43}], ids=str
)
def test_reference_that_makes_no_sense_is_told(change: dict[str, Any]) -> None:
    """No reader looks for it, or outside the store."""
    ref, _ = _made(Plain(STORE), _TEXT)
    assert not replace(ref, **change).sound


def _forged(records: bytes, frame: bytes = b"") -> tuple[PackRef, bytes]:
    """Return a pack with that trailer, and one frame or none."""
    writer = PackWriter(Plain(STORE))
    writer.add([], frame, 1)
    writer._records = [records]  # noqa: SLF001 # no honest writer does
    ref, pieces = writer.finish()
    return ref, b"".join(pieces)


def _frame(stored: int, raw: int, count: int, codec: int, *lengths: int) -> bytes:
    chunks = b"".join(struct.pack("<32sI", bytes(32), it) for it in lengths)
    return struct.pack("<IIHB", stored, raw, count, codec) + chunks


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (_frame(TAG, 5, 1, 0, 4), "contradicts itself"),
        (_frame(TAG, 5, 2, 0, 5), "contradicts itself"),
        (_frame(TAG, 0, 0, 0), "contradicts itself"),
        (_frame(TAG - 1, 5, 1, 0, 5), "contradicts itself"),
        (_frame(TAG, FRAME_BYTES + 1, 1, 1, FRAME_BYTES + 1), "larger than it may be"),
        (_frame(TAG, 5, 1, 2, 5), "2 is not a valid Codec"),
        (_frame(TAG, 5, 1, 0, 5)[:-1], "makes no sense"),
        (_frame(TAG, 5, 1, 0, 5) + b"x", "makes no sense"),
        (_frame(TAG + 1, 5, 1, 0, 5), "not as long as its frames are"),
    ],
)
def test_trailer_that_makes_no_sense_is_refused(records: bytes, said: str) -> None:
    """A codec of a later spotrun, too: it is named."""
    with pytest.raises(Broken, match=said):
        _opened(Plain(STORE), *_forged(records))


@pytest.mark.parametrize("frame", [b"A" * 999, b"A" * 1001, b"A", b""], ids=len)
def test_frame_of_another_length_is_refused(frame: bytes) -> None:
    """The trailer says how long it is uncompressed."""
    codec, stored = (Codec.ZSTD, len(zstandard.compress(frame))) if len(frame) > 1 else (0, 1)
    stored = stored if frame else 0
    ref, raw = _forged(_frame(stored + TAG, 1000, 1, codec, 1000), frame)
    pack = _opened(Plain(STORE), ref, raw)
    with pytest.raises(Broken, match=r"not as long as its chunks are|larger than it may be"):
        pack.open(pack.frames[0], raw[: stored + TAG])


def test_frame_takes_as_many_chunks_as_it_says() -> None:
    """The number of chunks is 16 bits in the trailer."""
    seal = Plain(STORE)
    chunks = [struct.pack("<I", number)[:3] for number in range(FRAME_CHUNKS)]
    assert len(_opened(seal, *_made(seal, chunks)).frames[0].chunks) == FRAME_CHUNKS


def test_packs_are_spread_over_folders() -> None:
    """Some file systems and browsers dislike folders with many files."""
    ref, _ = _made(Plain(STORE), _TEXT)
    assert key_of(ref.id) == f"packs/{ref.id[:2]}/{ref.id}"


@pytest.mark.parametrize("end", [b"", bytes(43), bytes(44)], ids=len)
def test_what_is_no_pack_is_told(end: bytes) -> None:
    """By its last bytes."""
    with pytest.raises(Broken, match=r"too short for a pack|does not end as a pack does"):
        footer_of(end)


def test_salt_is_in_the_footer() -> None:
    """It is all that a reader needs beside the key."""
    _, raw = _made(Plain(STORE), _TEXT)
    salt, length, tail = footer_of(raw)
    assert (len(salt), tail - length) == (SALT, 44)
