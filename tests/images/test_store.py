"""A snapshot in a directory is whole or invisible."""

import shutil
import stat
from pathlib import Path

import pytest

from spotrun.images import store as module
from spotrun.images.durable import write_json
from spotrun.images.errors import SnapshotDamaged, SnapshotNotFound, SpotrunError
from spotrun.images.store import DirectoryStore
from tests.fakes.snapshots import manifest, publish

_FIRST, _SECOND = "20261201T100000Z-00000b", "20261201T110000Z-00000a"


class PowerCut(BaseException):
    """Stands for the end of this process: nothing is tidied up behind it."""


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    """Give an empty store."""
    return DirectoryStore(tmp_path / "store")


def _damage(store: DirectoryStore, path: str) -> Path:
    """Return a file of the snapshot `publish` makes."""
    return store.snapshots / "train" / manifest().snapshot / path


def test_empty_store_is_read_without_being_made(store: DirectoryStore) -> None:
    """Looking into a store leaves no trace."""
    assert store.manifests() == []
    assert not store.has("train", _FIRST)
    assert not store.root.exists()


def test_store_is_for_its_owner_only(store: DirectoryStore) -> None:
    """Memory images hold secrets."""
    publish(store)
    folders = [path for path in store.root.glob("*") if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in [store.root, *folders]} == {0o700}
    assert stat.S_IMODE(_damage(store, "manifest.json").stat().st_mode) == 0o600


def test_store_of_another_format_is_refused(store: DirectoryStore) -> None:
    """A store that a later spotrun has made is not written to."""
    store.root.mkdir()
    write_json(store.root / "spotrun-store.json", {"format": 2})
    with pytest.raises(SpotrunError, match="format 2"):
        store.prepare()


def test_staged_snapshot_is_invisible(store: DirectoryStore) -> None:
    """Even one that has its manifest, until it is renamed."""
    described = manifest()
    staged = store.stage(described.snapshot)
    (staged / "manifest.json").write_bytes(b"{}")
    assert store.manifests() == []
    assert not store.has(described.job, described.snapshot)


def test_published_snapshot_is_seen_by_all_readers(store: DirectoryStore) -> None:
    """It is there, is listed, is found, and its files can be fetched."""
    described = publish(store)
    assert store.has("train", described.snapshot)
    assert store.manifests() == store.manifests("train") == [described]
    assert store.find("train", described.snapshot) == described
    assert (store.fetch(described) / "log").read_bytes() == b"output"
    assert list(store.staging.iterdir()) == []


def test_power_cut_before_the_rename_leaves_nothing_visible(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files and the manifest are written, and still no reader sees the snapshot."""

    def cut(root: Path) -> None:
        assert (root / "manifest.json").exists()
        raise PowerCut

    monkeypatch.setattr(module, "sync_tree", cut)
    with pytest.raises(PowerCut):
        publish(store)
    assert DirectoryStore(store.root).manifests() == []
    store.discard(manifest().snapshot)
    assert list(store.staging.iterdir()) == []


def test_snapshot_is_durable_before_it_is_visible(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are synced while it is staged, the names that lead to it after the rename."""
    order: list[tuple[str, bool]] = []

    def visible() -> bool:
        return store.has("train", manifest().snapshot)

    monkeypatch.setattr(module, "sync_tree", lambda root: order.append((root.name, visible())))
    monkeypatch.setattr(module, "sync_directory", lambda path: order.append((path.name, visible())))
    publish(store)
    assert order == [(manifest().snapshot, False), ("train", True), ("snapshots", True)]


def test_discarding_what_was_never_staged_is_no_error(store: DirectoryStore) -> None:
    """Taking back a phase that was cut off before it began must not fail."""
    store.discard("nothing")
    store.stage("something")
    store.discard("nothing")
    assert [path.name for path in store.staging.iterdir()] == ["something"]


def test_snapshots_are_listed_by_job_oldest_first(store: DirectoryStore) -> None:
    """One job's, or all."""
    publish(store, snapshot=_SECOND, created="2026-12-01T11:00:00.000+00:00")
    publish(store, snapshot=_FIRST)
    publish(store, job="other")
    assert [it.snapshot for it in store.manifests("train")] == [_FIRST, _SECOND]
    assert [it.job for it in store.manifests()] == ["other", "train", "train"]


def test_newest_snapshot_is_found(store: DirectoryStore) -> None:
    """Without a name, `find` returns what was saved last."""
    publish(store, snapshot=_SECOND, created="2026-12-01T11:00:00.000+00:00")
    publish(store, snapshot=_FIRST)
    assert store.find("train", None).snapshot == _SECOND


def test_newest_of_two_snapshots_of_one_second_is_found(store: DirectoryStore) -> None:
    """The random part of an id does not decide what a job goes on from."""
    older, newer = "20261201T100000Z-ffffff", "20261201T100000Z-000000"
    publish(store, snapshot=older, created="2026-12-01T10:00:00.100+00:00")
    publish(store, snapshot=newer, created="2026-12-01T10:00:00.900+00:00", parent=older)
    assert store.find("train", None).snapshot == newer
    assert [it.snapshot for it in store.manifests()] == [older, newer]


@pytest.mark.parametrize("name", [None, _SECOND])
def test_missing_snapshot_is_named_with_its_store(store: DirectoryStore, name: str | None) -> None:
    """The user learns what was looked for and where."""
    publish(store, job="other")
    wanted = name or "of job 'train'"
    with pytest.raises(SnapshotNotFound, match=rf"^no snapshot {wanted} in {store.root}$"):
        store.find("train", name)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "criu/pages-1.img is missing"),
        (b"mem", "criu/pages-1.img has 3 bytes, not 6"),
        (b"memory and more", "criu/pages-1.img has 15 bytes, not 6"),
    ],
    ids=["missing", "truncated", "longer"],
)
def test_damaged_file_is_named(store: DirectoryStore, content: bytes | None, said: str) -> None:
    """A snapshot whose files are not what the manifest says is not handed out."""
    described = publish(store)
    file = _damage(store, "criu/pages-1.img")
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(SnapshotDamaged) as refused:
        store.fetch(described)
    assert str(refused.value) == f"snapshot {described.snapshot} is damaged: {said}"


def test_directory_in_place_of_a_file_is_damage(store: DirectoryStore) -> None:
    """Only a file can have a file's size."""
    described = publish(store)
    file = _damage(store, "log")
    file.unlink()
    file.mkdir()
    with pytest.raises(SnapshotDamaged, match="log is missing"):
        store.fetch(described)


@pytest.mark.parametrize("raw", [b"", b"{", b'{"format": 9}'], ids=["empty", "cut", "format"])
def test_damaged_manifest_is_reported_as_damage(store: DirectoryStore, raw: bytes) -> None:
    """The snapshot and its manifest are named."""
    described = publish(store)
    _damage(store, "manifest.json").write_bytes(raw)
    with pytest.raises(SnapshotDamaged, match=rf"^snapshot {described.snapshot} .*manifest.json: "):
        store.load("train", described.snapshot)


def test_damaged_manifest_does_not_hide_the_other_snapshots(store: DirectoryStore) -> None:
    """What can be read is listed, and one that is named is found."""
    publish(store)
    whole = publish(store, snapshot=_SECOND)
    _damage(store, "manifest.json").write_bytes(b"{")
    assert store.find("train", _SECOND) == whole
    assert store.manifests() == [whole]


def test_removed_snapshot_is_gone(store: DirectoryStore) -> None:
    """With all its files, and without harm to the others."""
    described, kept = publish(store), publish(store, snapshot=_SECOND)
    store.remove("train", described.snapshot)
    assert store.manifests() == [kept]
    assert not _damage(store, "").exists()
    assert list(store.staging.iterdir()) == []


def test_removing_a_missing_snapshot_is_no_error(store: DirectoryStore) -> None:
    """Taking back may be done twice."""
    store.remove("train", _FIRST)
    assert not store.has("train", _FIRST)


def test_removal_that_is_cut_off_has_already_hidden_the_snapshot(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reader meets a snapshot that is half removed."""
    described = publish(store)

    def cut(_: Path) -> None:
        raise PowerCut

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", cut)
        with pytest.raises(PowerCut):
            store.remove("train", described.snapshot)
    assert store.manifests() == []
    assert not store.has("train", described.snapshot)


def test_file_sizes_are_relative_and_of_files_only(tmp_path: Path) -> None:
    """Folders have no entry of their own."""
    (tmp_path / "criu" / "empty").mkdir(parents=True)
    (tmp_path / "criu" / "a").write_bytes(b"123")
    (tmp_path / "log").write_bytes(b"")
    assert module.file_sizes(tmp_path) == {"criu/a": 3, "log": 0}
