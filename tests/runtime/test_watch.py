"""A child process that says nothing is seen to get on."""

import time
from pathlib import Path

import pytest

from spotrun.images.meter import Progress
from spotrun.runtime.watch import sent, watched


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


def test_what_need_not_be_sent_is_done_and_took_no_time() -> None:
    """The time that is left is that of what is lacking; what it is wrapped in is not counted."""
    told: list[Progress] = []
    look = sent(1000, 400, told.append)
    for written in (0, 100, 430):
        look(written)
    assert [(it.done, it.total, it.moved) for it in told] == [
        (600, 1000, 0),
        (700, 1000, 100),
        (1000, 1000, 400),
    ]
    assert told[0].left is None
    assert told[1].rate == pytest.approx(100 / told[1].seconds)
    assert told[1].left == pytest.approx(3 * told[1].seconds)
