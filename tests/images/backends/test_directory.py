"""A directory keeps objects whole through power cuts, full disks and dead writers."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from spotrun.images.backends.base import ObjectExists, ObjectMissing
from spotrun.images.backends.directory import DirectoryBackend
from spotrun.images.errors import StoreDenied, StoreFull, StoreUnavailable

_DAY = 24 * 3600


@pytest.fixture
def store(tmp_path: Path) -> DirectoryBackend:
    """Give a store that nothing was written to yet."""
    return DirectoryBackend(tmp_path / "store")


def test_reading_leaves_no_trace(store: DirectoryBackend) -> None:
    """Nor does deleting what is not there."""
    assert list(store.list()) == []
    store.delete(["it"])
    with pytest.raises(ObjectMissing):
        store.get("it")
    assert not store.root.exists()


def test_files_are_for_their_owner_only(store: DirectoryBackend) -> None:
    """They may hold secrets."""
    store.put("a/put", b"")
    store.replace("a/lease", b"2", store.create("a/lease", b"1"))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in store.root.rglob("*") if path.is_file()}
    folders = {stat.S_IMODE(path.stat().st_mode) for path in store.root.rglob("*") if path.is_dir()}
    assert (modes, folders) == ({0o600}, {0o700})
    assert stat.S_IMODE(store.root.stat().st_mode) == 0o700


@pytest.mark.parametrize("write", ["put", "create"])
def test_content_is_durable_before_the_name_and_the_name_after(
    store: DirectoryBackend, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """So is each new folder, in the one that it is in."""
    synced, fsync = [], os.fsync

    def recorded(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        named = (store.root / "a" / "b").exists()
        synced.append(("content" if path.parent.name == "~new" else path.name, named))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", recorded)
    getattr(store, write)("a/b", b"it")
    content = synced.index(("content", False))
    assert synced[-1] == ("a", True)
    assert content < len(synced) - 1
    assert {("store", False), (store.root.parent.name, False)} < set(synced)


@pytest.mark.parametrize(
    ("owner", "call", "write"),
    [
        (os, "fdopen", DirectoryBackend.put),
        (os, "fsync", DirectoryBackend.put),
        (os, "link", DirectoryBackend.create),
        (Path, "rename", DirectoryBackend.put),
    ],
)
def test_failed_write_leaves_nothing(
    store: DirectoryBackend,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    call: str,
    write: Callable[[DirectoryBackend, str, bytes], object],
) -> None:
    """A full disk is told as such; the old content stays."""
    store.put("it", b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/somewhere")

    with monkeypatch.context() as patched:
        patched.setattr(owner, call, fail)
        with pytest.raises(StoreFull, match="No space left on device"):
            write(store, "it" if write is DirectoryBackend.put else "new", b"new")
    assert [(it.key, it.size) for it in store.list()] == [("it", 3)]
    assert list((store.root / "~new").iterdir()) == []


def test_writer_that_lost_its_file_does_not_succeed(
    store: DirectoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one took it for abandoned."""
    fsync = os.fsync

    def swept(fd: int) -> None:
        fsync(fd)
        for path in (store.root / "~new").iterdir():
            path.unlink()

    monkeypatch.setattr(os, "fsync", swept)
    with pytest.raises(StoreUnavailable):
        store.put("it", b"it")


def test_half_written_files_are_no_objects(store: DirectoryBackend) -> None:
    """Nor are the store's own, or what a person has put there."""
    store.replace("a/it", b"2", store.create("a/it", b"1"))
    (store.root / "~new" / "half").write_bytes(b"half")
    (store.root / "a" / "a person's file").write_bytes(b"")
    (store.root / "link").symlink_to("/etc/passwd")
    assert [it.key for it in store.list()] == ["a/it"]


def test_only_old_files_of_dead_writers_are_removed(
    store: DirectoryBackend, tmp_path: Path
) -> None:
    """By a writer that comes later."""
    store.put("it", b"")
    new, now = store.root / "~new", (store.root / "it").stat().st_mtime
    for name, age in (("old", _DAY + 10), ("young", _DAY - 10), ("future", -1000)):
        (new / name).write_bytes(b"")
        os.utime(new / name, (now - age, now - age))
    store.put("it", b"")
    assert (new / "old").exists()
    DirectoryBackend(tmp_path / "store").put("it", b"")
    assert sorted(path.name for path in new.iterdir()) == ["future", "young"]


def test_age_is_told_by_the_clock_of_the_file_system(
    store: DirectoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This host's own may be wrong by years."""
    (store.root / "~new").mkdir(parents=True)
    (store.root / "~new" / "of another host").write_bytes(b"")
    monkeypatch.setattr("time.time", lambda: 4e9)
    store.put("it", b"")
    assert (store.root / "~new" / "of another host").exists()


def test_two_hosts_exclude_each_other(store: DirectoryBackend) -> None:
    """What one has created or replaced, the other one sees."""
    other = DirectoryBackend(store.root)
    tag = store.create("lease", b"1")
    with pytest.raises(ObjectExists):
        other.create("lease", b"2")
    other.replace("lease", b"2", tag)
    assert store.get("lease") == b"2"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_missing_permission_is_told(
    store: DirectoryBackend, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """With the path that it is about."""

    def fail(path: Path, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.raises(StoreDenied, match=str(store.root)):
        store.put("it", b"")


def test_file_in_place_of_the_store_is_told(tmp_path: Path) -> None:
    """A path that cannot be a store is no empty store once it is written to."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable):
        DirectoryBackend(tmp_path / "file").put("it", b"")
