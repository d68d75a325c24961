"""Packs that a host has sent are read from its own disk."""

import shutil
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from spotrun.images.backends.base import ObjectMissing
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.cache import PackCache

_PACK = Random(1).randbytes(100_000)
_KEY = "packs/aa/aabb"


@pytest.fixture
def backend() -> MemoryBackend:
    """Give an empty store's backend."""
    return MemoryBackend()


def _sent(backend: MemoryBackend, folder: Path) -> PackCache:
    """Return a new process's cache on a host that has sent a pack, which the store has lost."""
    PackCache(backend, folder).put(_KEY, [_PACK[:10], _PACK[10:]])
    assert backend.get(_KEY) == _PACK
    backend.delete([_KEY])
    return PackCache(backend, folder)


def test_pack_that_was_sent_is_read_here(backend: MemoryBackend, tmp_path: Path) -> None:
    """The store is not asked."""
    assert _sent(backend, tmp_path).read(_KEY, 5, 100) == _PACK[5:105]


def test_pack_that_is_not_here_comes_from_the_store(backend: MemoryBackend, tmp_path: Path) -> None:
    """As if there were no cache, also when it is missing."""
    backend.put(_KEY, _PACK)
    cache = PackCache(backend, tmp_path / "absent")
    assert cache.read(_KEY, 5, 100) == _PACK[5:105]
    with pytest.raises(ObjectMissing):
        cache.read("packs/bb/bbcc", 0, 1)


def test_damaged_file_is_not_used(backend: MemoryBackend, tmp_path: Path) -> None:
    """It is removed, and the store has the pack."""
    cache = _sent(backend, tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(_PACK[:-1] + b"x")
    backend.put(_KEY, _PACK)
    assert cache.read(_KEY, 5, 100) == _PACK[5:105]
    assert list(tmp_path.iterdir()) == []


def test_file_that_was_cut_off_is_not_used(backend: MemoryBackend, tmp_path: Path) -> None:
    """As a power cut may leave it."""
    cache = _sent(backend, tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"")
    backend.put(_KEY, _PACK)
    assert cache.read(_KEY, 5, 100) == _PACK[5:105]


def test_oldest_packs_make_room(backend: MemoryBackend, tmp_path: Path) -> None:
    """What is kept fits into the limit."""
    cache = PackCache(backend, tmp_path, most=3 * len(_PACK))
    for number in range(5):
        cache.put(f"packs/00/{number}", _PACK)
    assert sorted(path.name[0] for path in tmp_path.iterdir()) == ["2", "3", "4"]


def test_disk_that_is_nearly_full_is_left_alone(
    backend: MemoryBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sending a pack is a success nevertheless."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    PackCache(backend, tmp_path).put(_KEY, _PACK)
    assert backend.get(_KEY) == _PACK
    assert list(tmp_path.iterdir()) == []
