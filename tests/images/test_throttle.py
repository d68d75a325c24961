"""What is sent while a job goes on leaves some of the line to it."""

import threading
from time import monotonic

import pytest

from spotrun.images.backends.base import Data, ObjectMissing
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.throttle import Throttled

_RATE = 100_000
_PACK = bytes(10_000)
"""A tenth of a second of it."""


class _Watched(MemoryBackend):
    """Notes when packs arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived: list[float] = []

    def put(self, key: str, data: Data) -> None:
        self.arrived.append(monotonic())
        super().put(key, data)


@pytest.fixture
def line() -> _Watched:
    """Give where the packs go."""
    return _Watched()


def test_first_pack_goes_at_once(line: _Watched) -> None:
    """However large it is: the time that it takes is waited for after it."""
    begun = monotonic()
    Throttled(line, _RATE).put("a", bytes(100 * len(_PACK)))
    assert line.arrived[0] - begun < 1


def test_packs_come_no_faster_than_the_limit(line: _Watched) -> None:
    """On the average; pieces count together."""
    packs, begun = Throttled(line, _RATE), monotonic()
    for key in "abc":
        packs.put(key, [_PACK[:1000], memoryview(_PACK)[1000:]])
    packs.put("d", b"")
    spans = [it - begun for it in line.arrived]
    assert [it >= 0.1 * number for number, it in enumerate(spans)] == [True] * 4
    assert spans[-1] < 1


def test_threads_share_one_line(line: _Watched) -> None:
    """Together they send no more than one alone."""
    packs, begun = Throttled(line, _RATE), monotonic()
    threads = [threading.Thread(target=packs.put, args=(key, _PACK)) for key in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spans = sorted(it - begun for it in line.arrived)
    assert all(it >= 0.1 * number for number, it in enumerate(spans)), spans


def test_time_in_which_nothing_was_sent_is_not_made_up_for(line: _Watched) -> None:
    """After a pause, packs do not come all at once."""
    packs = Throttled(line, _RATE)
    packs.put("a", _PACK)
    threading.Event().wait(0.3)
    for key in "bc":
        packs.put(key, _PACK)
    assert line.arrived[2] - line.arrived[1] >= 0.09


def test_reads_do_not_wait(line: _Watched) -> None:
    """A restore takes what it gets."""
    packs = Throttled(line, 1)
    packs.put("a", _PACK)
    begun = monotonic()
    assert packs.read("a", 5, 10) == _PACK[5:15]
    with pytest.raises(ObjectMissing):
        packs.read("b", 0, 1)
    assert monotonic() - begun < 1
