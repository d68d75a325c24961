"""Whatever is damaged, missing or in another's place is found, with the snapshots that it hits."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from spotrun.images import imagebox
from spotrun.images.backends.base import Backend
from spotrun.images.care import Policy
from spotrun.images.holds import Hold, Purpose
from spotrun.images.meter import Progress
from spotrun.images.pack import PackRef
from spotrun.images.prune import prune
from spotrun.images.recipe import Content
from spotrun.images.runspec import ImageRef
from spotrun.images.seal import Plain
from spotrun.images.store import Store, StoredImage
from spotrun.images.verify import Finding, Verified, verify
from tests.fakes.snapshots import IMAGE
from tests.fakes.stores import STORE, copied, keyed, objects, plain, pushed, written
from tests.fakes.turns import Visited

_RANDOM = Random(3)
_SHARED = _RANDOM.randbytes(150_000)
_FIRST, _SECOND = "train/20261201T100000Z-00000a", "train/20261201T110000Z-00000a"
_REGISTERED = ImageRef("docker.io/library/other:1", "2" * 64, "other@sha256:2", ())


def _filled(store: Store, folder: Path) -> Store:
    """Store an image, and two snapshots that need it and have most in common."""
    push = store.begin("image", "train", "host")
    image = written(folder / "image", {"layer": _RANDOM.randbytes(5000)})
    imagebox.put(store, push, IMAGE, image, threads=None, tell=None)
    push.end()
    for name, files in (
        (_FIRST, {"shared": _SHARED, "zeros": bytes(300_000)}),
        (_SECOND, {"shared": _SHARED, "own": _RANDOM.randbytes(20_000)}),
    ):
        place = written(folder / name, files)
        pushed(store, place, snapshot=name.partition("/")[2])
    return store


@pytest.fixture(params=[plain, keyed])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Give a store with two snapshots and their image, with encryption and without."""
    return _filled(request.param(), tmp_path)


def _with(store: Store, changed: dict[str, bytes | None]) -> Store:
    """Return a store of the same objects, but for those that are changed or removed."""
    everything = {**objects(store), **changed}
    backend = copied({key: data for key, data in everything.items() if data is not None})
    return Store(backend, store.seal)


def _only(found: Verified) -> Finding:
    (finding,) = found.findings
    return finding


def _pack_of(store: Store, name: str, number: int = 0) -> str:
    job, _, snapshot = name.partition("/")
    pack = store.load(job, snapshot).content.packs[number].id
    return f"packs/{pack[:2]}/{pack}"


def test_whole_store_has_no_findings(store: Store) -> None:
    """It tells what there is and how much was read."""
    found = verify(store, read_data=False)
    packs = objects(store, "packs/")
    assert (found.findings, found.lost, found.unneeded) == ((), (), 0)
    assert (found.snapshots, found.images, len(found.named)) == (2, 1, len(packs))
    assert (found.bytes, found.bytes_read) == (sum(map(len, packs.values())), 0)
    assert verify(store, read_data=True) == replace(found, bytes_read=found.bytes)


def test_empty_store_has_no_findings() -> None:
    """Nor has one that is not there."""
    assert verify(plain(), read_data=True) == Verified((), (), {}, (), (), 0, 0, 0, 0, 0)


def test_any_flipped_byte_is_found(store: Store) -> None:
    """In any object, at either end, in the middle and somewhere else."""
    for key, data in objects(store).items():
        somewhere = [_RANDOM.randrange(len(data)) for _ in range(3)]
        for at in (0, len(data) // 2, len(data) - 1, *somewhere):
            broken = bytearray(data)
            broken[at] ^= 1 << _RANDOM.randrange(8)
            found = verify(_with(store, {key: bytes(broken)}), read_data=True)
            assert [it.key for it in found.findings] == [key], at


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data[1:],
        lambda data: data + b"\0",
        lambda _: b"",
        lambda data: data[: len(data) // 2],
    ],
    ids=["end-cut", "begin-cut", "longer", "empty", "half"],
)
def test_object_of_another_length_is_found(store: Store, change: Callable[[bytes], bytes]) -> None:
    """Without reading data."""
    for key, data in objects(store).items():
        found = verify(_with(store, {key: change(data)}), read_data=False)
        assert _only(found).key == key


def test_missing_object_is_found(store: Store) -> None:
    """Except a manifest: without it there is no such snapshot."""
    for key in objects(store):
        found = verify(_with(store, {key: None}), read_data=False)
        if key.startswith("snapshots/"):
            assert (found.findings, found.snapshots) == ((), 1)
        elif key.startswith("images/"):
            reason = "it is missing, and no registry has it"
            assert _only(found) == Finding(f"images/{IMAGE.id}", reason, (_FIRST, _SECOND))
        else:
            assert (_only(found).key, _only(found).reason) == (key, "it is missing")


def test_object_in_the_place_of_another_is_found(store: Store) -> None:
    """Both are valid, but not there."""
    everything = objects(store)
    for key in everything:
        for other, data in everything.items():
            if key != other:
                found = verify(_with(store, {key: data}), read_data=False)
                assert [it.key for it in found.findings] == [key], other


def test_snapshots_that_are_hit_are_named(store: Store) -> None:
    """Those that need the pack, and no others."""
    shared, own = _pack_of(store, _FIRST), _pack_of(store, _SECOND, 1)
    hit = {it: verify(_with(store, {it: None}), read_data=False) for it in (shared, own)}
    assert [_only(it).snapshots for it in hit.values()] == [(_FIRST, _SECOND), (_SECOND,)]
    assert [it.lost for it in hit.values()] == [
        (f"snapshots/{_FIRST}", f"snapshots/{_SECOND}"),
        (f"snapshots/{_SECOND}",),
    ]


def test_bad_frame_hits_only_those_that_need_it(tmp_path: Path) -> None:
    """A snapshot that needs other chunks of the pack is whole."""
    store = plain()
    both = written(tmp_path / "both", {"a": _RANDOM.randbytes(2 << 20), "b": _SHARED})
    second = written(tmp_path / "b", {"b": _SHARED, "more": b"more"})
    pushed(store, both, snapshot=_FIRST[6:], image=_REGISTERED)
    pushed(store, second, snapshot=_SECOND[6:], image=_REGISTERED)
    key = _pack_of(store, _FIRST)
    broken = bytearray(objects(store)[key])
    broken[100] ^= 1
    found = verify(_with(store, {key: bytes(broken)}), read_data=True)
    assert _only(found) == Finding(key, "its hash does not match", (_FIRST,))
    assert found.lost == (f"snapshots/{_FIRST}",)
    assert set(found.suspects) == {f"snapshots/{_FIRST}"} | (
        {f"snapshots/{_SECOND}"} if key == _pack_of(store, _SECOND) else set()
    )
    assert verify(_with(store, {key: bytes(broken)}), read_data=False).findings == ()


def test_image_that_is_lost_hits_all_that_need_it(store: Store) -> None:
    """Its pack is named, and whoever runs in it."""
    (key,) = objects(store, "images/")
    pack = store.load_image(key).content.packs[0].id
    found = verify(_with(store, {f"packs/{pack[:2]}/{pack}": None}), read_data=False)
    assert _only(found).snapshots == (_FIRST, _SECOND)
    assert found.lost == (key,)


def test_image_that_is_there_twice_can_be_lost_once(store: Store) -> None:
    """Then no snapshot is hit."""
    (key,) = objects(store, "images/")
    store.put_image(store.load_image(key))
    store.backend.put(key, b"nothing that makes sense")
    found = verify(store, read_data=True)
    assert (_only(found).key, _only(found).snapshots) == (key, ())


def test_hold_that_cannot_be_read_is_found(store: Store) -> None:
    """It keeps a prune from deleting packs."""
    store.holds.write("good", Hold(Purpose.PUSH, "train", "host"))
    store.backend.put("holds/bad", b"nothing that makes sense")
    found = verify(store, read_data=False)
    assert _only(found).key == "holds/bad"
    assert found.unneeded == 0


def test_what_belongs_to_nothing_is_counted(store: Store, tmp_path: Path) -> None:
    """It is no damage, whatever is in it."""
    push = store.begin("lost", "train", "host")
    folder = written(tmp_path / "lost", {"a": _RANDOM.randbytes(1000)})
    content = push.store(folder, {"a": 1000}, threads=None, tell=None)
    store.put_image(StoredImage(replace(IMAGE, id="9" * 64), {"a": 1000}, content))
    for key in ("packs/.nfs", "snapshots/train/.nfs", "anything", "images/1/x/y"):
        store.backend.put(key, b"12345")
    found = verify(store, read_data=True)
    assert (found.findings, found.unneeded) == ((), 6)
    assert found.unneeded_bytes > 4 * 5 + 1000


def _described(store: Store, **changes: object) -> Store:
    """Have the first snapshot's manifest say something else."""
    job, _, snapshot = _FIRST.partition("/")
    described = store.load(job, snapshot)
    changed = _with(store, {f"snapshots/{_FIRST}": None})
    changed.publish(replace(described, **changes))  # type: ignore[arg-type]
    return changed


def test_manifest_that_does_not_fit_its_recipe_is_found(store: Store) -> None:
    """Whoever wrote it was wrong."""
    described = store.load(*_FIRST.split("/"))
    lists = (
        {**described.files, "more": 1},
        {"shared": len(_SHARED)},
        {**described.files, "shared": 1},
    )
    for files in lists:
        found = verify(_described(store, files=files), read_data=False)
        assert _only(found).key == f"snapshots/{_FIRST}"
        assert _only(found).snapshots == (_FIRST,)


def test_manifest_that_names_what_its_packs_do_not_have_is_found(store: Store) -> None:
    """A chunk that is not there, a pack that is not there, zeros for a recipe."""
    content = store.load(*_FIRST.split("/")).content
    for recipe in ((0, 10_000, 1), (7, 0, 1), (-1, 0, 100), (0, 0, 1)):
        found = verify(_described(store, content=Content(content.packs, recipe)), read_data=False)
        assert _only(found).snapshots == (_FIRST,)
    nowhere = (*content.packs, PackRef("f" * 64, 1000, 100))
    found = verify(_described(store, content=Content(nowhere, content.recipe)), read_data=False)
    assert _only(found).key == "packs/ff/" + "f" * 64


@pytest.mark.parametrize("read_data", [False, True])
def test_what_is_pruned_meanwhile_is_no_damage(tmp_path: Path, *, read_data: bool) -> None:
    """Wherever the verify is when it happens."""
    filled = _filled(plain(), tmp_path)
    for request in range(1000):
        backend = copied(objects(filled))

        def away(backend: Backend = backend) -> None:
            prune(Store(backend, Plain(STORE)), Policy(last=1), host="host")

        visited = Visited(backend, request, away)
        assert verify(Store(visited, Plain(STORE)), read_data=read_data).findings == ()
        if not visited.visited:
            break
    assert request > 5


def test_progress_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes of packs, when they are read."""
    monkeypatch.setattr("spotrun.images.meter._INTERVAL", 0)
    told: list[Progress] = []
    found = verify(store, read_data=True, tell=told.append)
    assert (told[-1].done, told[-1].total) == (found.bytes, found.bytes)
