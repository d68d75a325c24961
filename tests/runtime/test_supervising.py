"""A job that is brought up has one supervisor, and nobody else brings it up meanwhile."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import NoReturn

import pytest

from spotrun.images import lease
from spotrun.images.errors import HostUnfit, JobBusy, JobNotFound, NotHere
from spotrun.runtime import commands, jobs, standing, supervising, tenure
from spotrun.runtime.commands import Line
from spotrun.runtime.forecast import Forecast
from spotrun.runtime.locks import Need
from spotrun.runtime.standing import Standing
from spotrun.runtime.supervising import Row
from tests.fakes.living import JOB, Living, supervised, until

_STANDING = Standing(
    pid=17,
    since="2026-12-01T10:00:00+00:00",
    container="c" * 64,
    saving=True,
    next="2026-12-01T10:10:00+00:00",
    interval=600.0,
    forecast=Forecast(30.0, 5.0, 3),
    saved="2026-12-01T10:05:00+00:00",
    leaving=None,
)


def _launch(here: Living, job: str = JOB) -> int:
    """Have a job looked after, and return the epoch of its lease."""
    with supervising.launching(here.host, job, here.address, tell=here.listener.note) as taken:
        assert supervising.launched(here.host.paths, job)
        return taken.epoch


def test_supervisor_is_there_before_the_job(here: Living) -> None:
    """It has the lease when somebody begins to bring the job up, and stays."""
    assert not supervising.supervised(here.host.paths, JOB)
    with supervised(here) as over:
        assert _launch(here) == 1
        assert here.runner.spawned == [("supervise", JOB)]
        assert supervising.supervised(here.host.paths, JOB)
        assert not supervising.launched(here.host.paths, JOB)
        over.set()
        until(lambda: not supervising.supervised(here.host.paths, JOB))


def test_job_that_is_looked_after_here_is_not_brought_up_again(here: Living) -> None:
    """Who asks is told which process has it; its lease is left alone."""
    with supervised(here):
        here.begin(epoch=_launch(here))
        before = tenure.of(here.host.paths, JOB)
        with pytest.raises(JobBusy, match=r"'supervise' since 20\d\d-"):
            _launch(here)
        assert tenure.of(here.host.paths, JOB) == before


def test_supervisor_of_a_job_that_has_gone_is_waited_for(here: Living) -> None:
    """It has yet to give the lease up."""
    with supervised(here) as over:
        _launch(here)
        threading.Timer(0.3, over.set).start()
        begun = monotonic()
        until(lambda: here.runner.spawned)
        with supervised(here):
            assert _launch(here) == 2
        assert monotonic() - begun > 0.2


def test_supervisor_that_does_not_come_to_its_end_is_told_of(
    here: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while."""
    with supervised(here):
        _launch(here)
        monkeypatch.setattr(supervising, "_PATIENCE", 0.1)
        with pytest.raises(JobBusy):
            _launch(here)


def test_job_that_is_just_being_brought_up_is_busy(here: Living) -> None:
    """By whoever does, not by its supervisor, and only as long as that takes."""
    with (
        supervised(here),
        supervising.launching(here.host, JOB, here.address, tell=here.listener.note),
        pytest.raises(JobBusy, match=r"at 'run' since 20\d\d-"),
    ):
        _launch(here)


def test_jobs_are_brought_up_beside_each_other(here: Living) -> None:
    """Each has locks of its own."""
    with (
        supervised(here),
        supervising.launching(here.host, JOB, here.address, tell=here.listener.note),
    ):
        assert not supervising.launched(here.host.paths, "other")
        assert not supervising.supervised(here.host.paths, "other")


def test_lease_is_given_up_if_no_supervisor_begins(
    here: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing may run without one; where to read why is told."""
    monkeypatch.setattr(supervising, "_PATIENCE", 0.1)
    with pytest.raises(HostUnfit, match=rf"see {here.host.paths.state}/{JOB}-supervisor.log"):
        _launch(here)
    record = lease.read(here.elsewhere, JOB)
    assert record
    assert (record.held, tenure.of(here.host.paths, JOB)) == (False, None)
    assert not supervising.launched(here.host.paths, JOB)


def test_what_was_said_of_an_earlier_life_is_forgotten(here: Living) -> None:
    """Notices as well: they were for another time."""
    (here.host.paths.notices / JOB).write_text("30s\n")
    standing.write(here.host.paths, JOB, _STANDING)
    with supervised(here):
        _launch(here)
        assert not (here.host.paths.notices / JOB).exists()
        assert standing.read(here.host.paths, JOB) is None


def test_failure_inside_ends_the_launch(here: Living) -> None:
    """Its supervisor sees that nobody is about to bring the job up any more."""
    with supervised(here):
        with (
            pytest.raises(ZeroDivisionError),
            supervising.launching(here.host, JOB, here.address, tell=here.listener.note),
        ):
            raise ZeroDivisionError
        until(lambda: not supervising.launched(here.host.paths, JOB))  # others only look at it


def test_second_supervisor_ends_at_once(here: Living) -> None:
    """One is enough."""
    with (
        supervising.serving(here.host.paths, JOB),
        pytest.raises(JobBusy),
        supervising.serving(here.host.paths, JOB),
    ):
        pass


def test_who_looks_whether_there_is_one_keeps_none_from_beginning(here: Living) -> None:
    """A look takes the lock for an instant."""
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            supervising.supervised(here.host.paths, JOB)

    with supervising.serving(here.host.paths, JOB):
        pass
    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(50):
            with supervising.serving(here.host.paths, JOB):
                pass
    finally:
        over.set()
        looking.join()


def test_jobs_that_are_looked_after_are_told_of(here: Living) -> None:
    """With what their supervisors have said last."""
    assert supervising.rows(here.host, []) == []
    with supervised(here):
        here.begin(epoch=_launch(here), parent="20261201T100000Z-00000a")
        row = Row(JOB, 1, "20261201T100000Z-00000a", None)
        assert supervising.jobs_here(here.host.paths) == [JOB]
        assert supervising.rows(here.host, []) == [row]
        standing.write(here.host.paths, JOB, _STANDING)
        (told,) = supervising.rows(here.host, [JOB])
        assert told.standing == _STANDING
        with pytest.raises(JobNotFound, match="'other'"):
            supervising.rows(here.host, [JOB, "other"])
    standing.forget(here.host.paths, JOB)
    standing.forget(here.host.paths, JOB)
    assert supervising.jobs_here(here.host.paths) == []
    with pytest.raises(JobNotFound):
        supervising.rows(here.host, [JOB])


_HOLDER = """
import fcntl, json, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
os.pwrite(fd, json.dumps({"pid": os.getpid()}).encode(), 0)
print(flush=True)
time.sleep(float(sys.argv[2]))
"""


@contextmanager
def _saving(here: Living, supervisor: int, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """Have a snapshot of the job be made by a child of ours, and that supervisor look after it."""
    lock = str(here.host.paths.locks / f"{JOB}.lock")
    argv = [sys.executable, "-c", _HOLDER, lock, str(seconds)]
    with supervised(here), subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        here.begin(epoch=_launch(here))
        standing.write(here.host.paths, JOB, replace(_STANDING, pid=supervisor))
        assert child.stdout
        child.stdout.readline()
        yield child


@pytest.mark.parametrize("verb", ["stop", "kill", "rm"])
def test_snapshot_that_is_made_by_the_way_gives_way_to_the_job_s_user(
    here: Living, verb: str
) -> None:
    """It is taken back, and nobody has to wait for its upload."""
    with _saving(here, os.getpid(), 60) as child:
        if verb == "rm":
            commands.remove(here.host, JOB, ["--force"], snapshots=False)
        else:
            commands.pass_on(here.host, Line(verb, (), [JOB]), Need.HELD)
        assert child.wait(10) == -signal.SIGTERM


def test_last_snapshot_is_waited_for(here: Living) -> None:
    """The supervisor makes it itself, because the host will go."""
    with _saving(here, os.getpid() + 1, 0.5) as child:
        commands.pass_on(here.host, Line("stop", (), [JOB]), Need.HELD)
        assert child.wait(10) == 0


@pytest.mark.parametrize("left", [False, True])
def test_exit_code_of_a_container_that_went_while_it_was_waited_for_is_its_own(
    here: Living, monkeypatch: pytest.MonkeyPatch, *, left: bool
) -> None:
    """With --rm its engine tells of it; 85 if its job has left with it, whatever that was."""

    def wait(container: str) -> NoReturn:
        raise NotHere(engine="podman", reason=f"no such container {container}")

    found = here.begin("--rm")
    monkeypatch.setattr(here.engine, "wait", wait)
    with pytest.raises(NotHere):
        commands.exit_code(here.host, found)
    here.engine.end(JOB, 7)
    if left:
        jobs.let_go(here.host.paths, here.record)
    assert commands.exit_code(here.host, found) == (85 if left else 7)
