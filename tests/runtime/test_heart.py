"""The heart renews a lease as long as it is this host's, whatever else the supervisor does."""

import threading
from collections.abc import Callable
from dataclasses import replace
from time import sleep

import pytest

from spotrun.images import lease
from spotrun.images.errors import LeaseHeld, LeaseLost
from spotrun.images.lease import Lease
from spotrun.runtime import fence, heart, tenure
from spotrun.runtime.heart import Heart
from tests.fakes.living import JOB, Living, until
from tests.fakes.partitions import Fate, Passage

_BEAT = 0.05
"""Seconds between two."""


@pytest.fixture
def job(here: Living, monkeypatch: pytest.MonkeyPatch) -> Living:
    """Give a host that has a lease, which it renews often."""
    monkeypatch.setattr(heart, "_SOON", _BEAT)
    monkeypatch.setattr(fence, "MARGIN", 0.0)
    here.host = replace(here.host, lease_seconds=heart._BEATS * _BEAT)  # noqa: SLF001
    here.take()
    return here


def _heart(job: Living, lost: Callable[[LeaseLost], None]) -> Heart:
    held = tenure.joined(job.host, JOB, job.address)
    assert held
    return Heart(job.host, JOB, held, lost)


def _beat(job: Living) -> str:
    found = lease.read(job.elsewhere, JOB)
    assert found
    return found.beat


def _left(job: Living) -> float:
    return fence.left(job.host.paths, JOB)


def _never(error: LeaseLost) -> None:
    raise AssertionError(error)


def test_lease_is_renewed_and_the_fence_put_off(job: Living) -> None:
    """Several times in the time for which it is valid; not any more after the end."""
    beats = {_beat(job)}
    with _heart(job, _never):
        for _ in range(5):
            until(lambda: _beat(job) not in beats)
            beats.add(_beat(job))
            assert _left(job) > 0
        sleep(job.host.lease_seconds)
        assert _left(job) > 0
    sleep(2 * _BEAT)
    last = _beat(job)
    sleep(4 * _BEAT)
    assert _beat(job) == last


def test_heart_beats_for_others_to_wait(job: Living) -> None:
    """Nobody gets the lease of a host that is alive."""
    other, over = Lease(job.elsewhere, JOB, host="host-b"), list[LeaseLost]()

    def taken() -> bool:
        try:
            other.acquire()
        except LeaseHeld:
            return False
        return True

    with _heart(job, over.append):
        for _ in range(int(3 * heart._BEATS)):  # noqa: SLF001
            assert not taken()
            sleep(_BEAT)
    assert over == []
    until(taken)


def test_lost_lease_closes_the_fence_and_is_told_once(job: Living) -> None:
    """From the heart's own thread, which ends."""
    told: list[LeaseLost] = []
    with _heart(job, told.append):
        job.lose()
        until(lambda: told)
        assert _left(job) <= 0
        until(lambda: not any(it.name == "heart" for it in threading.enumerate()))
    assert [it.fields["reason"] for it in told] == ["host host-b has taken it"]


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.LATE, Fate.UNHEARD])
def test_store_that_does_not_answer_does_not_put_the_fence_off(job: Living, fate: Fate) -> None:
    """The end comes, and nobody is told that the lease is lost: it may still be had."""
    until_then, beating = _left(job), _heart(job, _never)
    with job.network.meanwhile([Passage(fate)] * 1000), beating:
        sleep(2 * _BEAT)
        assert _left(job) < until_then
        until(lambda: _left(job) <= 0)


def test_store_that_is_back_puts_the_fence_off_again(job: Living) -> None:
    """Also after the end, since nobody has wanted the job."""
    with _heart(job, _never):
        job.network.cut = True
        until(lambda: _left(job) <= 0)
        job.network.cut = False
        until(lambda: _left(job) > 0)


def test_store_that_is_back_too_late_tells_that_the_lease_is_lost(job: Living) -> None:
    """Another host has it by then."""
    told: list[LeaseLost] = []
    with _heart(job, told.append):
        job.network.cut = True
        until(lambda: _left(job) <= 0)
        job.lose()
        job.network.cut = False
        until(lambda: told)
    assert _left(job) <= 0


def test_request_that_hangs_neither_holds_the_supervisor_up_nor_puts_the_fence_off(
    job: Living,
) -> None:
    """It is left to its thread, and says nothing more when it is answered after all."""
    asked, answered = threading.Event(), threading.Event()

    def hang() -> None:
        asked.set()
        answered.wait(5)

    with job.network.meanwhile([Passage(), Passage(before=hang)]):
        with _heart(job, _never):
            assert asked.wait(5)
            until(lambda: _left(job) <= 0)
        answered.set()
        until(lambda: not any(it.name == "heart" for it in threading.enumerate()))
    assert _left(job) <= 0


def test_end_counts_from_before_a_slow_request(job: Living) -> None:
    """Its answer may have been on its way for long."""
    with job.network.meanwhile([Passage(), Passage(after=lambda: sleep(4 * _BEAT))]):
        held = tenure.joined(job.host, JOB, job.address)
        assert held
        job.host = replace(job.host, lease_seconds=1000.0)  # no second beat
        before = _beat(job)
        with Heart(job.host, JOB, held, _never):
            until(lambda: _beat(job) != before)
            sleep(6 * _BEAT)
    assert _left(job) < heart._BEATS * _BEAT - 4 * _BEAT  # noqa: SLF001


def test_lease_that_was_given_up_closes_no_fence(job: Living) -> None:
    """The heart may beat once more before it ends; a fence that stays would stop a later job."""
    before, told = _beat(job), list[LeaseLost]()
    with _heart(job, told.append):
        until(lambda: _beat(job) != before)
        tenure.give_up(job.host, JOB)
        until(lambda: not any(it.name == "heart" for it in threading.enumerate()))
    assert not (job.host.paths.fences / JOB).exists()
