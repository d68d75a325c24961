"""Folders for a snapshot's files: in memory if they fit, and gone in the end."""

import os
import signal
from pathlib import Path

import pytest

from spotrun.images.errors import HostUnfit
from spotrun.runtime import fitness, scratch
from spotrun.runtime.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Give the folders of a host."""
    made = Paths(state=tmp_path / "state", run=tmp_path / "run", memory=tmp_path / "memory")
    made.prepare()
    return made


@pytest.mark.parametrize(("free", "linked"), [(100, True), (99, False)])
def test_process_images_go_to_memory_if_they_fit(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, free: int, *, linked: bool
) -> None:
    """Nobody else can look into either place."""
    monkeypatch.setattr(fitness, "free_memory", lambda: free)
    folder = scratch.make(paths, "name", images=50, memory=100)
    assert (folder / "criu").is_symlink() is linked
    assert (folder / "criu").stat().st_mode & 0o777 == 0o700
    scratch.remove(paths, "name")
    assert [*paths.scratch.iterdir(), *paths.memory.iterdir()] == []


def test_folder_of_a_dead_process_is_swept(paths: Paths) -> None:
    """Memory images would stay until the next boot."""
    pid = os.fork()
    if not pid:
        with scratch.held(paths, "left"):
            scratch.make(paths, "left", images=0, memory=0)
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert scratch.place(paths, "left").exists()
    with scratch.held(paths, "used"):
        scratch.make(paths, "used", images=0, memory=0)
        scratch.make(paths, "of a transaction", images=0, memory=0)
        scratch.sweep(paths)
        assert sorted(it.name for it in paths.scratch.iterdir()) == ["of a transaction", "used"]
    assert [it.name for it in paths.scratch.iterdir()] == ["of a transaction"]
    assert list(paths.scratch_locks.iterdir()) == []


@pytest.mark.parametrize("place", ["state", "run", "memory"])
def test_folder_that_somebody_else_made_is_refused(tmp_path: Path, place: str) -> None:
    """In a folder like /dev/shm anybody can be first, and could swap what root runs later."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / place).symlink_to(elsewhere)
    paths = Paths(state=tmp_path / "state", run=tmp_path / "run", memory=tmp_path / "memory")
    with pytest.raises(HostUnfit, match="is a link or belongs to another user"):
        paths.prepare()


def test_folder_that_was_open_to_all_is_closed(tmp_path: Path) -> None:
    """It has a host's memory images."""
    (tmp_path / "memory").mkdir(mode=0o777)
    Paths(tmp_path / "state", tmp_path / "run", tmp_path / "memory").prepare()
    assert (tmp_path / "memory").stat().st_mode & 0o777 == 0o700
