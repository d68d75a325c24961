"""A store shows whole snapshots or none, and names what is wrong with one."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from spotrun.images import store as module
from spotrun.images.backends.directory import DirectoryBackend
from spotrun.images.errors import SnapshotDamaged, SnapshotNotFound, StoreFull, StoreUnavailable
from spotrun.images.manifest import Manifest, encode
from spotrun.images.pack import key_of
from spotrun.images.seal import Keyed, seal_document
from spotrun.images.store import Store, StoredImage, file_sizes
from tests.fakes.snapshots import IMAGE, manifest, publish
from tests.fakes.stores import (
    MASTER,
    STORE,
    FussyBackend,
    keyed,
    objects,
    plain,
    pushed,
    read,
    written,
)

_FIRST, _SECOND, _THIRD = (f"20261201T1{hour}0000Z-00000a" for hour in (0, 1, 2))


@pytest.fixture(params=["plain", "keyed", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Give an empty store of each kind."""
    if request.param == "directory":
        return Store(DirectoryBackend(tmp_path / "store"), Keyed(STORE, MASTER))
    return plain() if request.param == "plain" else keyed()


def _names(found: list[Manifest]) -> list[tuple[str, str]]:
    return [(it.job, it.snapshot) for it in found]


def test_published_snapshot_is_found(store: Store, tmp_path: Path) -> None:
    """Its manifest as it was given, its files as they were."""
    described = publish(store)
    assert store.load("train", _FIRST) == described
    assert store.find("train", _FIRST) == described
    assert store.has("train", _FIRST)
    assert store.fetch(described, tmp_path / "out") > 0
    assert read(tmp_path / "out") == {"criu/pages-1.img": b"memory", "log": b"output"}


def test_snapshots_are_listed_by_job_and_time(store: Store) -> None:
    """By the ids as by the manifests."""
    for job, snapshot in [("b", _SECOND), ("a", _THIRD), ("b", _FIRST), ("bb", _FIRST)]:
        publish(store, job=job, snapshot=snapshot, created=snapshot)
    assert store.ids() == [("a", _THIRD), ("b", _FIRST), ("b", _SECOND), ("bb", _FIRST)]
    assert store.ids("b") == [("b", _FIRST), ("b", _SECOND)]
    assert _names(store.manifests("b")) == [("b", _FIRST), ("b", _SECOND)]
    assert _names(store.manifests())[-2:] == [("b", _SECOND), ("a", _THIRD)]


def test_newest_snapshot_of_a_job_is_found(store: Store) -> None:
    """Unless one is named."""
    for snapshot in (_SECOND, _THIRD, _FIRST):
        publish(store, snapshot=snapshot)
    assert store.find("train", None).snapshot == _THIRD
    assert store.find("train", _SECOND).snapshot == _SECOND


def test_what_is_not_there_is_named(store: Store) -> None:
    """A job as a snapshot."""
    publish(store)
    with pytest.raises(SnapshotNotFound, match=f"no snapshot {_SECOND} in "):
        store.find("train", _SECOND)
    with pytest.raises(SnapshotNotFound, match="no snapshot of job 'none' in "):
        store.find("none", None)
    assert not store.has("train", _SECOND)
    assert store.ids("none") == []


def test_name_of_another_snapshot_is_not_taken(store: Store) -> None:
    """The first one stays as it is."""
    described = publish(store)
    with pytest.raises(StoreUnavailable, match=r"it has a snapshot .* already"):
        store.publish(replace(described, epoch=7))
    assert store.load("train", _FIRST) == described


def test_removed_snapshot_is_gone_at_once(store: Store) -> None:
    """Its packs stay until the next prune; removing it twice is no error."""
    publish(store)
    other = publish(store, snapshot=_SECOND)
    packs = objects(store, "packs/")
    store.remove("train", _FIRST)
    store.remove("train", _FIRST)
    assert store.manifests() == [other]
    assert objects(store, "packs/") == packs


def test_snapshot_that_is_not_committed_is_not_seen(tmp_path: Path) -> None:
    """Whatever of it is stored."""
    store = plain()
    folder = written(tmp_path / "in", {"log": Random(1).randbytes(100_000)})
    store.begin("hold", "train", "host").store(folder, file_sizes(folder), threads=None, tell=None)
    assert len(objects(store, "packs/")) == 1
    assert (store.ids(), store.manifests(), store.has("train", _FIRST)) == ([], [], False)


def test_commit_that_fails_shows_nothing(tmp_path: Path) -> None:
    """Neither does one that is cut off at any object before."""

    def full(key: str) -> None:
        if key.startswith("packs/"):
            raise StoreFull(store="memory", reason="no room")

    store = plain(FussyBackend(full))
    with pytest.raises(StoreFull):
        pushed(store, written(tmp_path / "in", {"log": b"it"}))
    assert (store.ids(), store.manifests()) == ([], [])


def test_reader_meets_whole_snapshots_only(tmp_path: Path) -> None:
    """While others are made and removed."""
    store = Store(DirectoryBackend(tmp_path / "store"), Keyed(STORE, MASTER))
    done = threading.Event()
    last = publish(store, snapshot=_THIRD)

    def write() -> None:
        for _ in range(15):
            publish(store)
            store.remove("train", _FIRST)
        done.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not done.is_set():
            assert store.find("train", None) == last
            for found in store.manifests():
                with suppress(SnapshotNotFound):
                    store.check(store.load(found.job, found.snapshot))
        writing.result()


def _damage(store: Store, key: str) -> None:
    content = bytearray(store.backend.get(key))
    content[-1] ^= 1
    store.backend.put(key, content)


def test_damaged_manifest_is_named_and_the_others_are_shown(store: Store) -> None:
    """Nothing else suffers."""
    publish(store)
    other = publish(store, snapshot=_SECOND)
    _damage(store, f"snapshots/train/{_FIRST}")
    with pytest.raises(SnapshotDamaged, match=f"snapshot {_FIRST} is damaged: its manifest: "):
        store.load("train", _FIRST)
    assert store.manifests() == [other]
    found = list(store.examined([*store.ids(), ("train", _THIRD)]))
    assert [it[:2] for it in found] == [("train", it) for it in (_FIRST, _SECOND, _THIRD)]
    assert isinstance(found[0][2], SnapshotDamaged)
    assert [it[2] for it in found[1:]] == [other, None]


@pytest.mark.parametrize(
    "harm",
    [
        lambda _: b"no json",
        lambda raw: raw.replace(b'"format": 1', b'"format": 2'),
        lambda raw: raw.replace(b'"train"', b'"other"'),
        lambda raw: raw.replace(_FIRST.encode(), _SECOND.encode()),
        lambda raw: raw.replace(b'"train"', b'".."'),
    ],
    ids=["text", "format", "job", "snapshot", "no-name"],
)
def test_manifest_that_makes_no_sense_is_damage(
    store: Store, harm: Callable[[bytes], bytes]
) -> None:
    """Even if it is authentic."""
    key = f"snapshots/train/{_FIRST}"
    raw = harm(encode(manifest()))
    assert raw != encode(manifest())
    store.backend.create(key, seal_document(store.seal, key, raw))
    with pytest.raises(SnapshotDamaged, match=f"snapshot {_FIRST} is damaged: its manifest"):
        store.load("train", _FIRST)


def test_missing_pack_is_found_by_a_check(store: Store, tmp_path: Path) -> None:
    """And by whoever reads, before a byte is written."""
    described = publish(store)
    store.check(described)
    pack = described.content.packs[0].id
    store.backend.delete([key_of(pack)])
    said = f"snapshot {_FIRST} is damaged: pack {pack}: it is missing"
    with pytest.raises(SnapshotDamaged, match=said):
        store.check(described)
    with pytest.raises(SnapshotDamaged, match=said):
        store.fetch(described, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_some_files_are_fetched(store: Store, tmp_path: Path) -> None:
    """Those that were asked for, and no more than it takes."""
    files = {name: Random(name).randbytes(3 << 20) for name in "abc"}
    described, sent = pushed(store, written(tmp_path / "in", files))
    moved = store.fetch(described, tmp_path / "out", ["b"])
    assert read(tmp_path / "out") == {"b": files["b"]}
    assert moved < sent / 2


def test_files_are_fetched_into_a_folder_that_is_there(store: Store, tmp_path: Path) -> None:
    """Also behind a link, but over nothing."""
    described = publish(store)
    (tmp_path / "memory").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "criu").symlink_to(tmp_path / "memory")
    store.fetch(described, tmp_path / "out")
    assert (tmp_path / "memory" / "pages-1.img").read_bytes() == b"memory"
    with pytest.raises(FileExistsError):
        store.fetch(described, tmp_path / "out")


def _put_image(store: Store, folder: Path) -> StoredImage:
    push = store.begin("image", "train", "host")
    files = file_sizes(folder)
    stored = StoredImage(IMAGE, files, push.store(folder, files, threads=None, tell=None))
    store.put_image(stored)
    push.end()
    return stored


def test_image_is_kept(store: Store, tmp_path: Path) -> None:
    """Under the id of its configuration, whatever it is called."""
    assert (store.image(IMAGE), store.images()) == (None, [])
    stored = _put_image(store, written(tmp_path / "in", {"manifest.json": b"{}", "ab": b"layer"}))
    assert store.image(replace(IMAGE, name="other")) == stored
    assert store.image(replace(IMAGE, id="2" * 64)) is None
    assert store.images() == [stored]
    store.fetch_image(stored, tmp_path / "out")
    assert read(tmp_path / "out") == read(tmp_path / "in")


def test_damaged_image_is_as_good_as_none(store: Store, tmp_path: Path) -> None:
    """It is put again, and then found."""
    folder = written(tmp_path / "in", {"manifest.json": b"{}"})
    _put_image(store, folder)
    (key,) = objects(store, "images/")
    _damage(store, key)
    assert (store.image(IMAGE), store.images()) == (None, [])
    stored = _put_image(store, folder)
    assert store.image(IMAGE) == stored


def test_store_is_called_what_its_backend_is(tmp_path: Path) -> None:
    """In every message."""
    assert str(plain()) == "memory"
    assert str(Store(DirectoryBackend(tmp_path), Keyed(STORE, MASTER))) == str(tmp_path)


def test_file_sizes_are_relative_and_of_files_only(tmp_path: Path) -> None:
    """Folders have no entry of their own; what is behind a link is part of it."""
    written(tmp_path / "in", {"work/a": b"123", "log": b""})
    written(tmp_path / "memory", {"pages-1.img": b"12345"})
    (tmp_path / "in" / "none").mkdir()
    (tmp_path / "in" / "criu").symlink_to(tmp_path / "memory")
    assert module.file_sizes(tmp_path / "in") == {"work/a": 3, "log": 0, "criu/pages-1.img": 5}
