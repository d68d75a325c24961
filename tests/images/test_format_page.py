"""The page `docs/format.md` suffices to read a store.

Everything up to the tests was written from that page, and uses nothing of spotrun: if it has to be
changed, so has the page.
"""

import json
import re
import struct
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
import zstandard
from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from msgspec import msgpack

_FOOTER: Final = struct.Struct("<32sI8s")
_FRAME: Final = struct.Struct("<IIHB")
_CHUNK: Final = struct.Struct("<32sI")
_TRAILER: Final = 2**64 - 1
_ZEROS: Final = -1
_MOST_OF_A_DOCUMENT: Final = 64 << 20
_MOST_OF_A_FRAME: Final = 1 << 20


class Guard(Protocol):
    """What differs between plain and encrypted stores."""

    def name(self, chunk: bytes) -> bytes:
        """Return the name of a chunk."""
        ...

    def open(self, context: bytes, salt: bytes, number: int, sealed: bytes) -> bytes:
        """Return the piece that was sealed in a box."""
        ...


class PlainGuard:
    """The column `plain`."""

    def name(self, chunk: bytes) -> bytes:
        """Hash it."""
        return blake3(chunk).digest()

    def open(self, context: bytes, salt: bytes, number: int, sealed: bytes) -> bytes:
        """Compare the tag."""
        piece, tag = sealed[:-16], sealed[-16:]
        key = blake3(salt + context).digest()
        assert blake3(number.to_bytes(8, "little") + piece, key=key).digest()[:16] == tag
        return piece


class EncryptedGuard:
    """The column `encrypted`."""

    def __init__(self, master: bytes) -> None:
        """Derive two keys."""
        self.names = blake3(b"spotrun chunk names 1", key=master).digest()
        self.boxes = blake3(b"spotrun boxes 1", key=master).digest()

    def name(self, chunk: bytes) -> bytes:
        """Hash it under a key."""
        return blake3(chunk, key=self.names).digest()

    def open(self, context: bytes, salt: bytes, number: int, sealed: bytes) -> bytes:
        """Decrypt it under a key of its object's own."""
        key = blake3(salt + context, key=self.boxes).digest()
        return AESGCM(key).decrypt(number.to_bytes(12, "little"), sealed, None)


@dataclass
class Frame:
    """What a trailer says of a frame."""

    number: int
    offset: int
    stored: int
    codec: int
    chunks: list[tuple[bytes, int]]


def master_key(identity: dict[str, Any], secret: bytes) -> bytes:
    """Try all keys of `store.json`."""
    for key in identity["keys"]:
        assert key["n"] <= 2**20
        assert key["r"] <= 8
        assert key["p"] <= 1
        salt, master = b64decode(key["salt"]), b64decode(key["master"])
        scrypt = Scrypt(salt=salt, length=32, n=key["n"], r=key["r"], p=key["p"])
        bound = f"spotrun key {identity['id']} {key['id']} {key['created']}".encode()
        try:
            return AESGCM(scrypt.derive(secret)).decrypt(master[:12], master[12:], bound)
        except InvalidTag:
            continue
    raise AssertionError("this secret opens none of the keys")


def decompressed(packed: bytes, most: int) -> bytes:
    """Ask how large it will be, first."""
    assert 0 <= zstandard.frame_content_size(packed) <= most
    return zstandard.ZstdDecompressor().decompress(packed)


class Reader:
    """Reads a store in a directory."""

    def __init__(self, place: Path, secret: bytes | None) -> None:
        """Step 1."""
        self.place = place
        self.identity = json.loads((place / "store.json").read_bytes())
        assert self.identity["format"] == 1
        self.guard: Guard = PlainGuard()
        if self.identity["keys"]:
            assert secret is not None
            self.guard = EncryptedGuard(master_key(self.identity, secret))

    def document(self, key: str) -> Any:  # noqa: ANN401 # any JSON
        """Open a document."""
        raw = (self.place / key).read_bytes()
        mark = b"spotrun document 1\n"
        assert raw[:19] == mark
        context = f"document {self.identity['id']} {key}".encode()
        packed = self.guard.open(context, raw[19:51], 0, raw[51:])
        return json.loads(decompressed(packed, _MOST_OF_A_DOCUMENT))

    def manifest(self, job: str, snapshot: str) -> Any:  # noqa: ANN401 # any JSON
        """Step 2."""
        found = self.document(f"snapshots/{job}/{snapshot}")
        assert (found["job"], found["snapshot"], found["format"]) == (job, snapshot, 1)
        return found

    def recipe(self, content: dict[str, Any]) -> tuple[list["PackReader"], dict[str, list[int]]]:
        """Steps 3 and 4."""
        packs = [PackReader(self, ref) for ref in content["packs"]]
        raw = b"".join(pieces(packs, content["recipe"], zeros=False))
        return packs, msgpack.decode(raw)

    def files(self, content: dict[str, Any], sizes: dict[str, int]) -> Iterator[tuple[str, bytes]]:
        """Step 5."""
        packs, recipe = self.recipe(content)
        for path, size in sizes.items():
            assert not path.startswith("/")
            assert ".." not in path.split("/")
            found = b"".join(pieces(packs, recipe[path], zeros=True))
            assert len(found) == size
            yield path, found


class PackReader:
    """Reads chunks of a pack."""

    def __init__(self, reader: Reader, ref: dict[str, Any]) -> None:
        """Read the tail."""
        self.guard = reader.guard
        self.raw = (reader.place / "packs" / ref["id"][:2] / ref["id"]).read_bytes()
        assert len(self.raw) == ref["size"]
        tail = self.raw[-ref["tail"] :]
        self.salt, length, mark = _FOOTER.unpack(tail[-44:])
        trailer = tail[:-44]
        assert mark == b"spotpak1"
        assert len(trailer) == length
        assert blake3(self.salt + trailer).hexdigest() == ref["id"]
        records = self.guard.open(b"pack", self.salt, _TRAILER, trailer)
        self.places = [(frame, at) for frame in frames(records) for at in range(len(frame.chunks))]
        end = max(frame.offset + frame.stored for frame, _ in self.places)
        assert end + ref["tail"] == ref["size"]

    def chunk(self, number: int) -> bytes:
        """Open its frame, and look at all names in it."""
        frame, wanted = self.places[number]
        sealed = self.raw[frame.offset : frame.offset + frame.stored]
        raw = self.guard.open(b"pack", self.salt, frame.number, sealed)
        if frame.codec == 1:
            raw = decompressed(raw, _MOST_OF_A_FRAME)
        assert len(raw) == sum(length for _, length in frame.chunks)
        found, start = [], 0
        for name, length in frame.chunks:
            found.append(raw[start : start + length])
            assert self.guard.name(found[-1]) == name
            start += length
        return found[wanted]


def frames(records: bytes) -> Iterator[Frame]:
    """Read a trailer."""
    at = offset = number = 0
    while at < len(records):
        stored, size, count, codec = _FRAME.unpack_from(records, at)
        at += _FRAME.size
        chunks = [_CHUNK.unpack_from(records, at + it * _CHUNK.size) for it in range(count)]
        at += count * _CHUNK.size
        assert count >= 1
        assert codec in {0, 1}
        assert sum(length for _, length in chunks) == size <= _MOST_OF_A_FRAME
        yield Frame(number, offset, stored, codec, chunks)
        number, offset = number + 1, offset + stored


def pieces(packs: list[PackReader], extents: list[int], *, zeros: bool) -> Iterator[bytes]:
    """Yield what a list of extents stands for."""
    assert len(extents) % 3 == 0
    for at in range(0, len(extents), 3):
        pack, first, count = extents[at : at + 3]
        assert count >= 1
        if pack == _ZEROS:
            assert zeros
            yield bytes(count)
            continue
        assert pack >= 0
        for number in range(first, first + count):
            yield packs[pack].chunk(number)


_GOLDEN: Final = Path(__file__).parent / "golden"
_PAGE: Final = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
_EXPECTED: Final = json.loads((_GOLDEN / "store-1-files.json").read_bytes())
_SECRETS: Final = {
    "store-1": None,
    "store-1-encrypted": (_GOLDEN / "store-1.key").read_bytes().rstrip(b"\r\n"),
}


@pytest.fixture(params=_SECRETS, scope="module")
def reader(request: pytest.FixtureRequest) -> Reader:
    """Give a reader of a golden store."""
    return Reader(_GOLDEN / request.param, _SECRETS[request.param])


def _digests(files: Iterator[tuple[str, bytes]]) -> dict[str, str]:
    return {path: sha256(content).hexdigest() for path, content in files}


def test_files_of_snapshots_are_read(reader: Reader) -> None:
    """Bit for bit, from the page alone."""
    places = sorted(reader.place.glob("snapshots/*/*"))
    assert len(places) == 2
    for place in places:
        manifest = reader.manifest(place.parent.name, place.name)
        found = _digests(reader.files(manifest["content"], manifest["files"]))
        assert found == _EXPECTED[place.name]


def test_files_of_an_image_are_read(reader: Reader) -> None:
    """In the same way."""
    (place,) = reader.place.glob("images/*/*")
    image = reader.document(str(place.relative_to(reader.place)))
    assert image["image"]["id"] == place.parent.name
    assert _digests(reader.files(image["content"], image["files"])) == _EXPECTED[place.parent.name]


def test_hold_is_read(reader: Reader) -> None:
    """It names packs that no snapshot has."""
    hold = reader.document("holds/unfinished")
    assert (hold["purpose"], hold["job"], hold["host"]) == ("push", "train", "host-a")
    PackReader(reader, hold["packs"][0]).chunk(0)


def test_event_is_read(reader: Reader) -> None:
    """The page names all that it says, and what it may be."""
    (place,) = reader.place.glob("history/train/*")
    event = reader.document(f"history/train/{place.name}")
    assert re.fullmatch(r"20261201T100007\.250000Z-[0-9a-f]{16}", place.name)
    assert (event["kind"], event["host"], event["bytes"]) == ("snapshot", "host-a", 4711)
    assert {field for field in event if f"`{field}`" not in _PAGE} == set()


def test_page_names_every_field_of_a_manifest(reader: Reader) -> None:
    """So that the table does not fall behind."""
    manifest = reader.manifest("train", sorted(_EXPECTED)[1])
    nested = [manifest, manifest["image"], manifest["run"], manifest["host"], manifest["content"]]
    fields = {field for part in nested for field in part} | set(manifest["content"]["packs"][0])
    assert {field for field in fields if f"`{field}`" not in _PAGE} == set()


def test_golden_stores_have_all_that_there_is(reader: Reader) -> None:
    """Both codecs, a pack of several frames, zeros, no bytes, and packs of an earlier snapshot."""
    names = sorted(reader.place.glob("[is]*s/*/*"))
    documents = [reader.document(str(it.relative_to(reader.place))) for it in names]
    packs = [PackReader(reader, ref) for it in documents for ref in it["content"]["packs"]]
    assert {frame.codec for pack in packs for frame, _ in pack.places} == {0, 1}
    assert max(frame.number for pack in packs for frame, _ in pack.places) > 0
    _, first, second = ({ref["id"] for ref in it["content"]["packs"]} for it in documents)
    assert first & second
    assert second - first
    recipe = reader.recipe(documents[1]["content"])[1]
    assert recipe["work/empty"] == []
    assert recipe["trees/0.tar"][3:5] == [_ZEROS, 0]
