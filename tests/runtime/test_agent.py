"""The agent tells all jobs of a host, and shares the time among them."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from spotrun.hooks.notices.file import File
from spotrun.hooks.notices.notice import Kind, Notice
from spotrun.runtime import agent, jobs, standing, supervising, tenure
from spotrun.runtime.tenure import Tenure
from tests.fakes.host import FakeHost, fake_host
from tests.fakes.observer import Listener
from tests.fakes.snapshots import manifest
from tests.fakes.standings import said

_SAVED = {
    "a-fresh": None,
    "b-old": "2026-12-01T00:00:00+00:00",
    "c-new": "2026-12-01T00:30:00+00:00",
}


class _Jobs:
    """Jobs that are looked after here, each by nobody but a lock."""

    def __init__(self, fake: FakeHost) -> None:
        self.host, self._held = fake.host, {job: ExitStack() for job in _SAVED}
        self.told: list[str] = []
        for job, saved in _SAVED.items():
            jobs.save(self.host.paths, jobs.Job(job, manifest().run, self.host.own_store))
            noted = Tenure(job, "0" * 32, 1, self.host.own_store)
            tenure.note(self.host.paths, noted)
            standing.write(self.host.paths, job, said(saved=saved))
            self._held[job].enter_context(supervising.serving(self.host.paths, job))

    def serve(self) -> None:
        """Let each job go a moment after it was told, until all have."""
        while len(self.told) < len(_SAVED):
            for job in _SAVED.keys() - {*self.told}:
                if File(self.host.paths.notices / job).poll(0):
                    self.told.append(job)
                    time.sleep(0.05)
                    self._held[job].close()
            time.sleep(0.01)

    def close(self) -> None:
        """Let all go."""
        for held in self._held.values():
            held.close()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[_Jobs]:
    """Give a host with three jobs."""
    made = _Jobs(fake_host(tmp_path))
    yield made
    made.close()


def _notice(left: float, *, order: bool = True) -> Notice:
    deadline = time.monotonic() + left
    return Notice("aws", Kind.TERMINATE, "1", "soon", order=order, deadline=deadline)


def test_who_has_most_to_lose_is_first_where_time_is_short(here: _Jobs) -> None:
    """One after the other: without any snapshot, then with the oldest one."""
    served = threading.Thread(target=here.serve)
    served.start()
    agent.spread(here.host, _notice(12), Listener())
    served.join()
    assert here.told == ["a-fresh", "b-old", "c-new"]


def test_all_are_told_at_once_where_there_is_time(here: _Jobs) -> None:
    """And what is told is the time that is left."""
    telling = threading.Thread(target=agent.spread, args=(here.host, _notice(200), Listener()))
    telling.start()
    sources = [File(here.host.paths.notices / job) for job in _SAVED]
    deadline = time.monotonic() + 5
    while not all(it.poll(0) for it in sources):
        assert time.monotonic() < deadline
    for source in sources:
        (notice,) = source.poll(0) or ()
        left = notice.left()
        assert left is not None
        assert 190 < left <= 200
    here.close()
    telling.join()


@pytest.mark.parametrize("notice", [_notice(100, order=False), _notice(10_000)])
def test_what_is_no_order_yet_is_not_waited_for(here: _Jobs, notice: Notice) -> None:
    """All jobs are told, and go on listening."""
    agent.spread(here.host, notice, Listener())
    for job in _SAVED:
        (told,) = File(here.host.paths.notices / job).poll(0) or ()
        assert told.order is notice.order
    assert set(supervising.jobs_here(here.host.paths)) == set(_SAVED)


def test_notice_that_is_called_off_is_taken_from_all(here: _Jobs) -> None:
    """As far as they have not gone."""
    agent.spread(here.host, _notice(10_000), Listener())
    agent.withdraw(here.host.paths)
    assert [File(here.host.paths.notices / job).poll(0) for job in _SAVED] == [(), (), ()]


def test_agent_is_known_to_be_there(tmp_path: Path) -> None:
    """By those who listen to their cloud themselves without one."""
    host = fake_host(tmp_path).host
    assert not agent.alive(host.paths)
    with agent.serving(host):
        assert agent.alive(host.paths)
    assert not agent.alive(host.paths)
