"""A repair saves what can be, sets aside what is lost, and everything else works again."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from spotrun.images import imagebox
from spotrun.images.care import Policy
from spotrun.images.errors import SnapshotDamaged, SnapshotNotFound
from spotrun.images.holds import Hold, Purpose
from spotrun.images.manifest import Manifest
from spotrun.images.pack import PackRef, key_of
from spotrun.images.prune import prune
from spotrun.images.pull import open_pack
from spotrun.images.repair import Repaired, repair
from spotrun.images.runspec import ImageRef
from spotrun.images.store import Store
from spotrun.images.verify import verify
from tests.fakes.snapshots import IMAGE
from tests.fakes.stores import keyed, objects, plain, pushed, read, written

_REGISTERED = ImageRef("docker.io/library/other:1", "2" * 64, "other@sha256:2", ())
_RANDOM = Random(4)
_MEMORY = _RANDOM.randbytes(3 << 20)
"""Three frames."""
_IDS = [f"20261201T10{number:02}00Z-00000a" for number in range(20)]


@pytest.fixture(params=[plain, keyed])
def store(request: pytest.FixtureRequest) -> Store:
    """Give an empty store, encrypted or not."""
    made: Store = request.param()
    return made


def _push(
    store: Store, folder: Path, number: int, files: dict[str, bytes], *, job: str = "train"
) -> Manifest:
    place = written(folder / f"{job}-{number}", files)
    return pushed(store, place, job=job, snapshot=_IDS[number], image=_REGISTERED)[0]


def _done(store: Store, *, read_data: bool = True) -> Repaired:
    """Repair, having been told the same before."""
    before = objects(store)
    shown = repair(store, host="host", read_data=read_data, apply=False)
    assert objects(store) == before
    assert (shown.applied, shown.packs, shown.left) == (False, 0, shown.findings)
    done = repair(store, host="host", read_data=read_data, apply=True)
    assert (done.rebuilt, done.set_aside) == (shown.rebuilt, shown.set_aside)
    assert done.applied
    return done


def _assert_whole(store: Store, folder: Path, *expected: tuple[Manifest, dict[str, bytes]]) -> None:
    """These snapshots are there and no others, and the store is as good as new."""
    found = verify(store, read_data=True)
    assert (found.findings, found.unneeded) == ((), 0)
    assert store.ids() == sorted((it.job, it.snapshot) for it, _ in expected)
    for it, files in expected:
        place = folder / "fetched" / it.job / it.snapshot
        store.fetch(store.load(it.job, it.snapshot), place)
        assert read(place) == files
    assert objects(store, "holds/") == {}


def _break(store: Store, ref: PackRef, frame: int) -> None:
    """Flip a bit in a frame of a pack."""
    pack = open_pack(store.backend, store.seal, ref)
    key, raw = key_of(ref.id), bytearray(store.backend.get(key_of(ref.id)))
    raw[pack.frames[frame].offset + 50] ^= 4
    store.backend.put(key, bytes(raw))


def _key(it: Manifest) -> str:
    return f"snapshots/{it.job}/{it.snapshot}"


def test_nothing_is_done_to_a_whole_store(store: Store, tmp_path: Path) -> None:
    """Nor to an empty one."""
    assert _done(store) == Repaired(True, (), (), (), 0, (), ())  # noqa: FBT003 # in their order
    files = {"a": _MEMORY}
    made = _push(store, tmp_path, 0, files)
    before = objects(store)
    assert _done(store).findings == ()
    assert objects(store) == before
    _assert_whole(store, tmp_path, (made, files))


def test_damaged_manifest_is_set_aside(store: Store, tmp_path: Path) -> None:
    """Then the snapshot before it is the newest, and prunes work again."""
    files = {"a": b"1"}
    older, newer = (
        _push(store, tmp_path, number, {**files, f"{number}": b""}) for number in (1, 2)
    )
    store.backend.put(_key(newer), b"nothing that makes sense")
    with pytest.raises(SnapshotDamaged):
        prune(store, Policy(), host="host")
    done = _done(store)
    assert done.set_aside == (_key(newer),)
    assert store.backend.get(f"damaged/{_key(newer)}") == b"nothing that makes sense"
    assert store.find("train", None) == older
    prune(store, Policy(), host="host")
    _assert_whole(store, tmp_path, (older, {**files, "1": b""}))


def test_snapshots_of_a_missing_pack_are_set_aside(store: Store, tmp_path: Path) -> None:
    """Those that do not need it stay."""
    kept = _push(store, tmp_path, 0, {"a": b"1"})
    lost = _push(store, tmp_path, 1, {"b": _MEMORY})
    also = _push(store, tmp_path, 2, {"b": _MEMORY, "c": b"3"})
    store.backend.delete([key_of(lost.content.packs[0].id)])
    done = _done(store, read_data=False)
    assert done.set_aside == (_key(lost), _key(also))
    assert (done.rebuilt, done.left) == ((), ())
    assert set(objects(store, "damaged/")) == {f"damaged/{it}" for it in done.set_aside}
    prune(store, Policy(), host="host")
    _assert_whole(store, tmp_path, (kept, {"a": b"1"}))


def test_pack_that_is_broken_at_its_end_goes(store: Store, tmp_path: Path) -> None:
    """As soon as nothing names it; what else its snapshots needed is left to a prune."""
    lost = _push(store, tmp_path, 0, {"a": _MEMORY})
    key = key_of(lost.content.packs[0].id)
    store.backend.put(key, store.backend.get(key)[:-1])
    done = _done(store, read_data=False)
    assert (done.set_aside, done.packs) == ((_key(lost),), 1)
    assert objects(store, "packs/") == {}
    assert store.ids() == []


def test_snapshot_that_does_not_need_the_bad_frame_is_saved(store: Store, tmp_path: Path) -> None:
    """It names another pack then, which has what is good of the broken one."""
    files = {"b": _MEMORY[2 << 20 :], "zeros": bytes(100_000), "own": b"own"}
    lost = _push(store, tmp_path, 0, {"a": _MEMORY[: 2 << 20], "b": _MEMORY[2 << 20 :]})
    saved = _push(store, tmp_path, 1, files)
    (broken, *_) = lost.content.packs
    assert broken.id in {it.id for it in saved.content.packs}
    _break(store, broken, 0)
    done = _done(store)
    assert (done.set_aside, done.rebuilt) == ((_key(lost),), (_key(saved),))
    assert (done.packs, done.left) == (1, ())
    assert key_of(broken.id) not in objects(store)
    _assert_whole(store, tmp_path, (saved, files))


def test_nothing_is_built_upon_bad_chunks_after_a_repair(store: Store, tmp_path: Path) -> None:
    """The next snapshot stores them again."""
    lost = _push(store, tmp_path, 0, {"a": _MEMORY})
    saved = _push(store, tmp_path, 1, {"a": _MEMORY[2 << 20 :]})
    _break(store, lost.content.packs[0], 0)
    _done(store)
    again = _push(store, tmp_path, 2, {"a": _MEMORY, "new": b"new"})
    prune(store, Policy(), host="host")
    expected = ((saved, {"a": _MEMORY[2 << 20 :]}), (again, {"a": _MEMORY, "new": b"new"}))
    _assert_whole(store, tmp_path, *expected)


def test_bad_chunks_are_taken_from_other_packs(store: Store, tmp_path: Path) -> None:
    """Two hosts stored the same at the same time, so all of it is there twice."""
    files = {"a": _MEMORY, "b": b"2"}
    place = written(tmp_path / "both", files)
    pushes = [store.begin(job, job, "host") for job in ("one", "two")]
    made = []
    for job, push in zip(("one", "two"), pushes, strict=True):
        sizes = {name: len(it) for name, it in files.items()}
        content = push.store(place, sizes, threads=1, tell=None)
        described = _push(store, tmp_path, 0, {}, job=f"like-{job}")
        made.append(replace(described, job=job, files=sizes, content=content))
        push.publish(made[-1])
        push.end()
    store.remove("like-one", _IDS[0])
    store.remove("like-two", _IDS[0])
    prune(store, Policy(), host="host")
    for it, frame in zip(made, (0, 2), strict=True):
        _break(store, it.content.packs[0], frame)
    done = _done(store)
    assert (done.set_aside, set(done.rebuilt)) == ((), {_key(it) for it in made})
    assert done.packs == 2
    _assert_whole(store, tmp_path, *((it, files) for it in made))


def test_image_that_is_lost_can_be_stored_again(store: Store, tmp_path: Path) -> None:
    """The snapshots that need it stay: a host may have the image."""
    push = store.begin("image", "train", "host")
    place = written(tmp_path / "image", {"layer": _MEMORY})
    imagebox.put(store, push, IMAGE, place, threads=None, tell=None)
    push.end()
    files = written(tmp_path / "files", {"a": b"1"})
    made, _ = pushed(store, files, snapshot=_IDS[0])
    (key,) = objects(store, "images/")
    _break(store, store.load_image(key).content.packs[0], 1)
    done = _done(store)
    assert (done.set_aside, done.packs) == ((key,), 1)
    assert [it.key for it in done.left] == [f"images/{IMAGE.id}"]
    push = store.begin("image", "train", "host")
    assert push.image(IMAGE) is None
    imagebox.put(store, push, IMAGE, place, threads=None, tell=None)
    push.end()
    _assert_whole(store, tmp_path, (made, {"a": b"1"}))


def test_image_that_does_not_need_the_bad_frame_is_saved(store: Store, tmp_path: Path) -> None:
    """As a snapshot is."""
    lost = _push(store, tmp_path, 0, {"a": _MEMORY})
    push = store.begin("image", "train", "host")
    place = written(tmp_path / "image", {"layer": _MEMORY[2 << 20 :]})
    imagebox.put(store, push, IMAGE, place, threads=None, tell=None)
    push.end()
    made, _ = pushed(store, written(tmp_path / "files", {"a": b"1"}), snapshot=_IDS[1])
    (key,) = objects(store, "images/")
    _break(store, lost.content.packs[0], 0)
    done = _done(store)
    assert (done.set_aside, done.rebuilt) == ((_key(lost),), (key,))
    stored = store.image(IMAGE)
    assert stored
    store.fetch_image(stored, tmp_path / "fetched-image")
    assert read(tmp_path / "fetched-image") == {"layer": _MEMORY[2 << 20 :]}
    prune(store, Policy(), host="host")
    _assert_whole(store, tmp_path, (made, {"a": b"1"}))


def test_broken_pack_stays_while_somebody_pushes(store: Store, tmp_path: Path) -> None:
    """All else is done, and they are named."""
    lost = _push(store, tmp_path, 0, {"a": _MEMORY})
    _break(store, lost.content.packs[0], 0)
    store.holds.write("theirs", Hold(Purpose.PUSH, "train", "host-b"))
    done = _done(store)
    assert ([it.host for it in done.in_the_way], done.packs) == (["host-b"], 0)
    assert done.set_aside == (_key(lost),)
    with pytest.raises(SnapshotNotFound):
        store.find("train", None)


def test_damage_that_needs_all_data_to_be_seen_is_left_without_it(
    store: Store, tmp_path: Path
) -> None:
    """A repair is as thorough as its verify."""
    made = _push(store, tmp_path, 0, {"a": _MEMORY})
    _break(store, made.content.packs[0], 0)
    assert _done(store, read_data=False).findings == ()
    assert _done(store, read_data=True).set_aside == (_key(made),)
