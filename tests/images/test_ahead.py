"""A dump is stored while it is written, once; of one that fails nothing counts."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

import pytest

from spotrun.images import growing, push
from spotrun.images.errors import StoreFull
from spotrun.images.pages import PAGE
from spotrun.images.pushing import Push
from spotrun.images.store import Store, file_sizes
from tests.fakes.snapshots import manifest
from tests.fakes.stores import (
    FussyBackend,
    keyed,
    objects,
    page_files,
    plain,
    pushed,
    read,
    written,
)

_MB: Final = 1 << 20
_SECOND: Final = "20261201T110000Z-00000b"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "_PAUSE", 0.001)
    monkeypatch.setattr(push, "_BYTES_A_WORKER", _MB)
    monkeypatch.setattr(push, "PACK_BYTES", _MB)


def _dump(folder: Path) -> None:
    """Write a dump of two processes and what else there is."""
    noise = Random(1)
    for number, megabytes in ((1, 6), (2, 3)):
        runs = [(0x40000000, noise.randbytes(megabytes * _MB)), (0x50001000, bytes(3 * PAGE))]
        page_files(folder / "criu", number, runs)
    written(folder, {"criu/core-1.img": b"core"})


def _begun(store: Store, folder: Path) -> Push:
    (folder / "criu").mkdir(parents=True)
    return store.begin(manifest().snapshot, manifest().job, "host")


def _fails(begun: Push, folder: Path, arrived: threading.Event) -> None:
    """Let the dump fail when a part of it is stored."""
    with begun.ahead(folder, "criu", 9 * _MB):
        _dump(folder)
        assert arrived.wait(10)
        raise ValueError("the dump")


def _published(begun: Push, folder: Path) -> None:
    """Store all files, and commit."""
    files = file_sizes(folder)
    content = begun.store(folder, files, threads=None, tell=None)
    begun.publish(replace(manifest(), files=files, content=content))
    begun.end()


@contextmanager
def _no_threads_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize("make", [plain, keyed])
def test_dump_that_is_stored_while_it_is_written_comes_back(
    make: Callable[[], Store], tmp_path: Path
) -> None:
    """With the files that came after it."""
    store, folder = make(), tmp_path / "in"
    begun = _begun(store, folder)
    with _no_threads_left():
        with begun.ahead(folder, "criu", 9 * _MB):
            _dump(folder)
        written(folder, {"trees/0.tar": b"tree", "log": b""})
        _published(begun, folder)
    store.fetch(store.find("train", None), tmp_path / "out")
    assert read(tmp_path / "out") == read(folder)


def test_next_push_finds_what_was_stored_ahead(tmp_path: Path) -> None:
    """It is cut as a dump that is stored afterwards."""
    store, folder = plain(), tmp_path / "in"
    begun = _begun(store, folder)
    with begun.ahead(folder, "criu", 9 * _MB):
        _dump(folder)
    _published(begun, folder)
    packs = sum(map(len, objects(store, "packs/").values()))
    assert begun.moved == packs
    assert pushed(store, folder, snapshot=_SECOND)[1] == 0


def test_packs_arrive_while_the_dump_is_written(tmp_path: Path) -> None:
    """Else nothing would be won."""
    arrived = threading.Event()
    backend = FussyBackend(lambda key: arrived.set() if key.startswith("packs/") else None)
    store, folder = plain(backend), tmp_path / "in"
    begun = _begun(store, folder)
    with begun.ahead(folder, "criu", 9 * _MB):
        _dump(folder)
        assert arrived.wait(10)
    _published(begun, folder)


def test_dump_that_fails_leaves_nothing_but_packs_to_build_upon(tmp_path: Path) -> None:
    """No snapshot, no hold that keeps others from deleting."""
    arrived = threading.Event()
    backend = FussyBackend(lambda key: arrived.set() if key.startswith("packs/") else None)
    store, folder = plain(backend), tmp_path / "in"
    begun = _begun(store, folder)
    with _no_threads_left():
        with pytest.raises(ValueError, match="the dump"):
            _fails(begun, folder, arrived)
        store.abandon(manifest().snapshot)
    assert store.ids() == []
    before = objects(store, "packs/")
    _, sent = pushed(store, folder, snapshot=_SECOND)
    assert before.keys() <= objects(store, "packs/").keys()
    assert sent == sum(map(len, objects(store, "packs/").values())) - sum(map(len, before.values()))
    assert list(store.holds.held()) == []


def test_push_that_is_abandoned_after_the_dump_ends(tmp_path: Path) -> None:
    """As when the changed files cannot be copied."""
    store, folder = plain(), tmp_path / "in"
    begun = _begun(store, folder)
    with _no_threads_left():
        with begun.ahead(folder, "criu", 9 * _MB):
            _dump(folder)
        store.abandon(manifest().snapshot)
    assert store.ids() == []


def test_store_that_fails_during_the_dump_is_told_afterwards(tmp_path: Path) -> None:
    """The dump itself goes on."""
    failed = threading.Event()

    def full(key: str) -> None:
        if key.startswith("packs/"):
            failed.set()
            raise StoreFull(store="it", reason="no room")

    store, folder = plain(FussyBackend(full)), tmp_path / "in"
    begun = _begun(store, folder)
    with _no_threads_left():
        with begun.ahead(folder, "criu", 9 * _MB):
            _dump(folder)
            assert failed.wait(10)
        with pytest.raises(StoreFull, match="no room"):
            begun.store(folder, file_sizes(folder), threads=None, tell=None)
    assert begun.moved == 0


def test_page_file_that_vanishes_is_told(tmp_path: Path) -> None:
    """The manifest would lack it."""
    store, folder = plain(), tmp_path / "in"
    begun = _begun(store, folder)
    with begun.ahead(folder, "criu", 9 * _MB):
        _dump(folder)
    files = file_sizes(folder)
    del files["criu/pages-1.img"]
    with pytest.raises(OSError, match=r"^criu/pages-1.img has changed its size from 0 to \d+ byt"):
        begun.store(folder, files, threads=None, tell=None)


class _Stop(BaseException):
    """Stands for Ctrl-C, which comes to the main thread only."""


def test_ctrl_c_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the main thread waits for its end."""
    store, folder = plain(), tmp_path / "in"
    begun = _begun(store, folder)
    with _no_threads_left():
        with begun.ahead(folder, "criu", 9 * _MB):
            _dump(folder)
        _interrupt_results(monkeypatch)
        with pytest.raises(_Stop):
            begun.store(folder, file_sizes(folder), threads=None, tell=None)


def _interrupt_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Ctrl-C come to whoever waits in the main thread."""
    real, main = Future.result, threading.main_thread()

    def result(self: Future[object], timeout: float | None = None) -> object:
        if threading.current_thread() is main:
            raise _Stop
        return real(self, timeout)

    monkeypatch.setattr(Future, "result", result)
