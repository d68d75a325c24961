"""A child process that says nothing is seen to get on."""

import time
from pathlib import Path

import pytest

from spotrun.images.meter import Progress
from spotrun.runtime.watch import watched


def test_files_that_grow_are_told_of(tmp_path: Path) -> None:
    """Never more than the whole, whatever else is written beside."""
    told: list[Progress] = []
    with watched(tmp_path, 1000, told.append):
        for size in (100, 5000):
            (tmp_path / "pages-1.img").write_bytes(bytes(size))
            seen = len(told)
            while len(told) < seen + 2:
                time.sleep(0.01)
    assert {100, 1000} <= {it.done for it in told} <= {0, 100, 1000}
    assert {it.total for it in told} == {1000}


def test_failure_of_what_is_watched_is_its_own(tmp_path: Path) -> None:
    """The watcher ends with it."""
    told: list[Progress] = []
    with pytest.raises(ValueError, match="dump"), watched(tmp_path, 1, told.append):
        raise ValueError("dump")
    seen = len(told)
    time.sleep(0.3)
    assert len(told) == seen
