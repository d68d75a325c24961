"""Any object flipped, cut, removed or swapped: it is told, and never a wrong byte read.

With a key: nothing that was stored can be seen, or opens without it.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import pytest
import zstandard

from spotrun.images import keys
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.errors import SnapshotDamaged, SpotrunError, StoreForeign, StoreLocked
from spotrun.images.opening import make_in, open_in
from spotrun.images.pack import footer_of
from spotrun.images.pages import PAGE
from spotrun.images.seal import Keyed, Plain
from spotrun.images.store import IDENTITY, Store, StoredImage, file_sizes
from tests.fakes.snapshots import IMAGE
from tests.fakes.stores import MASTER, copied, objects, page_files, pushed, read, written

_SECRET: Final = b"a secret of nobody else"
_IDS: Final = [
    ("train", "20261201T100000Z-00000a"),
    ("train", "20261201T110000Z-00000b"),
    ("other", "20261201T110000Z-00000c"),
]
_KINDS: Final = ("memory", "file", "name", "env", "command", "image")
_TOKENS: Final = {kind: f"{kind}-{Random(kind).getrandbits(96):x}" for kind in _KINDS}
_STRIDE: Final = 61

Objects = Mapping[str, bytes]
Files = dict[str, dict[str, bytes]]


@dataclass(frozen=True)
class Filled:
    """A store with snapshots that share packs, an image and a hold."""

    secret: bytes | None
    objects: Objects
    files: Files


def _fill(store: Store) -> Files:
    """Fill a store; return all files in it."""
    spec = {"process": {"env": [f"TOKEN={_TOKENS['env']}"], "args": [_TOKENS["command"]]}}
    with TemporaryDirectory() as made:
        folders = [Path(made, name) for name in ("0", "1", "2", "image")]
        page = _TOKENS["memory"].encode().ljust(PAGE, b"m")
        page_files(folders[0], 1, [(0x400000, page), (0x800000, bytes(20 * PAGE))])
        named = f"{_TOKENS['name']}.tar"
        written(folders[0], {named: _TOKENS["file"].encode() + b"." * 9000, "log": b"1"})
        written(folders[1], {**read(folders[0]), "log": Random(2).randbytes(900)})
        written(folders[2], {"log": Random(3).randbytes(900)})
        written(folders[3], {"layer": _TOKENS["image"].encode()})
        for (job, snapshot), folder in zip(_IDS, folders, strict=False):
            pushed(store, folder, job=job, snapshot=snapshot, oci_spec=spec)
        push, files = store.begin("image", "", "host"), file_sizes(folders[3])
        content = push.store(folders[3], files, threads=None, tell=None)
        store.put_image(StoredImage(IMAGE, files, content))
        push.end()
        store.begin("left", "train", "host")
        return {folder.name: read(folder) for folder in folders}


def _filled(secret: bytes | None) -> Filled:
    backend = MemoryBackend()
    make_in(backend, secret)
    store = open_in(backend, secret)
    files = _fill(store)
    return Filled(secret, objects(store), files)


@pytest.fixture(scope="module", autouse=True)
def _cheap() -> Iterator[None]:
    """Let keys cost next to nothing: they are tried thousands of times."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(keys, "_COST", 2)
        yield


@pytest.fixture(scope="module", params=[None, _SECRET], ids=["plain", "keyed"])
def filled(request: pytest.FixtureRequest) -> Filled:
    """Give a store of each kind."""
    return _filled(request.param)


@pytest.fixture(scope="module")
def encrypted() -> Filled:
    """Give an encrypted store."""
    return _filled(_SECRET)


def _read(contents: Objects, secret: bytes | None) -> Files:
    """Read all that a store has; a hold or image that cannot be read is as good as none."""
    store = open_in(copied(contents), secret)
    manifests = [store.load(*names) for names in _IDS]
    image = store.image(IMAGE)
    if image is None or store.holds.read("left") is None:
        raise SnapshotDamaged(snapshot="none", reason="an image or a hold is not there")
    with TemporaryDirectory() as made:
        for number, manifest in enumerate(manifests):
            store.fetch(manifest, Path(made, str(number)))
        store.fetch_image(image, Path(made, "image"))
        return {name: read(Path(made, name)) for name in ("0", "1", "2", "image")}


def _needing(filled: Filled, pack: str) -> Callable[[Store, Path], object]:
    """Return what reads the files that need a pack."""
    store = open_in(copied(filled.objects), filled.secret)
    for found in store.manifests():
        if any(pack.endswith(ref.id) for ref in found.content.packs):
            return lambda store, folder: store.fetch(found, folder)
    (image,) = store.images()
    return lambda store, folder: store.fetch_image(image, folder)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Expect one of spotrun's own errors, and no other."""
    try:
        yield
    except SpotrunError as error:
        assert str(error)
    else:
        pytest.fail(f"it was not told that {what}")


def test_whole_store_is_read(filled: Filled) -> None:
    """So that what the other tests find is due to the damage."""
    assert _read(filled.objects, filled.secret) == filled.files
    assert len([key for key in filled.objects if key.startswith("packs/")]) == 4


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


@pytest.mark.parametrize("prefix", ["snapshots/", "images/", "holds/"])
def test_flipped_byte_of_a_document_is_told(filled: Filled, prefix: str) -> None:
    """Every one."""
    for key in [it for it in filled.objects if it.startswith(prefix)]:
        for at in range(len(filled.objects[key])):
            with _told(f"byte {at} of {key} was flipped"):
                changed = _flipped(filled.objects[key], at)
                _read({**filled.objects, key: changed}, filled.secret)


def test_flipped_byte_of_a_pack_is_told(filled: Filled, tmp_path: Path) -> None:
    """Every one of trailer and footer, and many of the frames."""
    store = open_in(copied(filled.objects), filled.secret)
    for key in [it for it in filled.objects if it.startswith("packs/")]:
        content, fetch = filled.objects[key], _needing(filled, key)
        tail = len(content) - footer_of(content)[2]
        for at in [*range(0, tail, _STRIDE), tail - 1, *range(tail, len(content))]:
            store.backend.put(key, _flipped(content, at))
            with _told(f"byte {at} of {key} was flipped"):
                fetch(store, tmp_path / key / str(at))
        store.backend.put(key, content)


@pytest.mark.parametrize("bit", [1 << bit for bit in range(8)])
def test_flipped_byte_of_the_identity_is_told(filled: Filled, bit: int) -> None:
    """Or says the same as before, as some ends of base64 do."""
    content = filled.objects[IDENTITY]
    for at in range(len(content)):
        harmed = bytearray(content)
        harmed[at] ^= bit
        changed = {**filled.objects, IDENTITY: bytes(harmed)}
        try:
            found = _read(changed, filled.secret)
        except SpotrunError as error:
            assert str(error)
        else:
            assert found == filled.files
            assert harmed[at + 1 : at + 3] == b'="'


def test_object_that_is_cut_is_told(filled: Filled) -> None:
    """Wherever."""
    for key, content in filled.objects.items():
        for length in {
            0,
            1,
            19,
            44,
            51,
            67,
            len(content) // 2,
            len(content) - 44,
            len(content) - 1,
        }:
            if length < len(content) - (key == IDENTITY):
                with _told(f"{key} was cut to {length} bytes"):
                    _read({**filled.objects, key: content[:length]}, filled.secret)


def test_object_that_has_grown_is_told_or_does_no_harm(filled: Filled) -> None:
    """What is behind a pack is not part of it."""
    for key, content in filled.objects.items():
        changed = {**filled.objects, key: content + b"\0"}
        if key.startswith("packs/"):
            assert _read(changed, filled.secret) == filled.files
        else:
            with _told(f"{key} has grown"):
                _read(changed, filled.secret)


def test_object_that_is_missing_is_told(filled: Filled) -> None:
    """Each of them."""
    for missing in filled.objects:
        with _told(f"{missing} is missing"):
            left = {key: content for key, content in filled.objects.items() if key != missing}
            _read(left, filled.secret)


def test_objects_that_were_swapped_are_told(filled: Filled) -> None:
    """Each put in the place of each other one, all of them valid."""
    for key in filled.objects:
        for other, content in filled.objects.items():
            if other != key:
                with _told(f"{other} is in the place of {key}"):
                    _read({**filled.objects, key: content}, filled.secret)


def test_objects_of_another_store_are_told(filled: Filled) -> None:
    """With the same secret, names and files: nothing of it can be put among ours."""
    other = _filled(filled.secret)
    assert other.files == filled.files
    theirs = {kind: _of_kind(other.objects, kind) for kind in ("packs/", "images/", "")}
    for key in filled.objects:
        kind = next(it for it in theirs if key.startswith(it))
        for content in [other.objects[key]] if key in other.objects else theirs[kind]:
            with _told(f"{key} is of another store"):
                _read({**filled.objects, key: content}, filled.secret)


def _of_kind(contents: Objects, prefix: str) -> list[bytes]:
    return [content for key, content in contents.items() if key.startswith(prefix)]


def test_frames_that_were_swapped_are_told(filled: Filled) -> None:
    """Their seal has their number; names of chunks come after it."""
    key = max(
        (it for it in filled.objects if it.startswith("packs/")),
        key=lambda it: len(filled.objects[it]),
    )
    content = filled.objects[key]
    for at in range(0, len(content) // 2 - 32, 16):
        harmed = content[16 * 2 + at : at + 64] + content[at : at + 32]
        changed = content[:at] + harmed + content[at + 64 :]
        if changed != content:
            with _told(f"blocks at {at} of {key} were swapped"):
                _read({**filled.objects, key: changed}, filled.secret)


def test_store_without_its_identity_is_not_taken_for_a_new_one(filled: Filled) -> None:
    """With the reason."""
    left = {key: content for key, content in filled.objects.items() if key != IDENTITY}
    with pytest.raises(StoreForeign, match=r"it has snapshots, but no store\.json"):
        open_in(copied(left), filled.secret)


def _shown(contents: Objects) -> str:
    """Return all that an operator can make of the objects: as they are, and decompressed."""
    found = []
    for key, content in contents.items():
        found += [key.encode(), content]
        at = content.find(zstandard.FRAME_HEADER)
        while at >= 0:
            with suppress(zstandard.ZstdError):
                found.append(zstandard.ZstdDecompressor().decompress(content[at:], 1 << 20))
            at = content.find(zstandard.FRAME_HEADER, at + 1)
    return b"\n".join(found).decode(errors="replace")


def test_nothing_that_was_stored_can_be_seen(encrypted: Filled) -> None:
    """No memory, file, name of one, environment or command; in a plain store all of it can."""
    open_to_all, shown = _shown(_filled(None).objects), _shown(encrypted.objects)
    assert [kind for kind, token in _TOKENS.items() if token not in open_to_all] == []
    assert [kind for kind, token in _TOKENS.items() if token in shown] == []
    coded = [b64encode(token.encode()).decode()[4:-4] for token in _TOKENS.values()]
    assert [
        it for it in [*coded, IMAGE.name, "busybox", "oci_spec", _SECRET.decode()] if it in shown
    ] == []


def test_chunks_of_known_files_cannot_be_looked_for(encrypted: Filled) -> None:
    """Neither by the hash that a plain store has, nor by that of another key."""
    known = encrypted.files["1"]["log"]
    shown = b"".join(encrypted.objects.values())
    for seal in (Plain(""), Keyed("", MASTER)):
        assert seal.name(known) not in shown
    opened = open_in(copied(encrypted.objects), _SECRET)
    assert opened.seal.name(known) not in shown


@pytest.mark.parametrize("secret", [None, b"", b"another one's secret", _SECRET + b"."], ids=str)
def test_nothing_opens_without_the_key(encrypted: Filled, secret: bytes | None) -> None:
    """It is said why."""
    with pytest.raises(StoreLocked):
        open_in(copied(encrypted.objects), secret)


@pytest.mark.parametrize("seal", [Plain, lambda it: Keyed(it, MASTER)], ids=["plain", "keyed"])
def test_no_document_or_pack_opens_under_another_key(
    encrypted: Filled, tmp_path: Path, seal: Callable[[str], Plain | Keyed]
) -> None:
    """Even if it is made to try."""
    backend = copied(encrypted.objects)
    right = open_in(backend, _SECRET)
    wrong = Store(backend, seal(right.seal.store))
    assert (wrong.manifests(), wrong.images(), wrong.holds.read("left")) == ([], [], None)
    for names in _IDS:
        with pytest.raises(SnapshotDamaged):
            wrong.fetch(right.load(*names), tmp_path)
    assert list(tmp_path.iterdir()) == []
