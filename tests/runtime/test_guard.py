"""The guard freezes a job in time, whatever becomes of its supervisor, and brings that back."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NoReturn

import pytest

from spotrun.hooks.notices.file import File
from spotrun.images.lease import boot_time
from spotrun.runtime import fence, guard, locks, standing
from spotrun.runtime.forecast import Forecast
from spotrun.runtime.standing import Standing
from tests.fakes.living import JOB, Living, until
from tests.fakes.snapshots import NOW

_LOOKS = 0.1
"""Seconds in which the guard looks several times."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything happen sooner."""
    monkeypatch.setattr(guard, "_LOOK", 0.01)
    monkeypatch.setattr(guard, "_PAUSE", 0.1)


@pytest.fixture
def job(here: Living) -> Iterator[Living]:
    """Give a host with a job that may run for a minute."""
    here.begin()
    _put_off(here)
    yield here
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _put_off(here: Living) -> None:
    fence.put_off(here.host.paths, JOB, boot_time() + 60)


def _close(here: Living) -> None:
    fence.put_off(here.host.paths, JOB, boot_time() - 1)


def _while_guarded(here: Living, act: Callable[[], object]) -> None:
    """Do something while the job has a guard, and a supervisor that does nothing."""
    begun, over = (here.host.paths.run / it for it in ("begun", "over"))
    for it in (begun, over):
        it.unlink(missing_ok=True)

    def supervise() -> int:
        begun.touch()
        until(over.exists)
        return 0

    def acting() -> None:
        try:
            until(begun.exists)  # else the supervisor inherits what is locked meanwhile
            act()
        finally:
            over.touch()

    with ThreadPoolExecutor(1) as beside:
        acted = beside.submit(acting)
        assert guard.guard(here.host, JOB, supervise) == 0
    acted.result()


def _closed(here: Living) -> None:
    """Have the job frozen."""
    _close(here)
    until(lambda: here.status == "paused")


def test_job_runs_until_its_fence_has_passed(job: Living) -> None:
    """Then it is frozen, though its supervisor does nothing."""

    def act() -> None:
        sleep(_LOOKS)
        assert job.status == "running"
        fence.put_off(job.host.paths, JOB, boot_time() + fence.MARGIN + 0.3)
        begun = monotonic()
        until(lambda: job.status == "paused")
        assert 0.2 < monotonic() - begun < 2

    _while_guarded(job, act)


def test_job_is_frozen_again_whoever_thaws_it(job: Living) -> None:
    """Another host may have it."""

    def act() -> None:
        _close(job)
        for _ in range(3):
            until(lambda: job.status == "paused")
            job.oci.thaw(job.container.id)
        until(lambda: job.status == "paused")

    _while_guarded(job, act)


def test_job_is_frozen_whatever_else_is_being_done_with_it(job: Living) -> None:
    """A snapshot that takes long does not put the end off."""

    def act() -> None:
        with locks.hold(job.host.paths.locks, JOB, "checkpoint", NOW, wait=False):
            _close(job)
            until(lambda: job.status == "paused")

    _while_guarded(job, act)


def test_job_is_thawed_once_its_lease_is_renewed(job: Living) -> None:
    """The store was away for a while, and nobody has wanted the job."""

    def act() -> None:
        _close(job)
        until(lambda: job.status == "paused")
        _put_off(job)
        until(lambda: job.status == "running")

    _while_guarded(job, act)


def test_job_is_not_thawed_while_somebody_works_on_it(job: Living) -> None:
    """Who saves it counts on its being frozen; afterwards it is."""

    def act() -> None:
        _close(job)
        until(lambda: job.status == "paused")
        with locks.hold(job.host.paths.locks, JOB, "checkpoint", NOW, wait=False):
            _put_off(job)
            sleep(_LOOKS)
            assert job.status == "paused"
        until(lambda: job.status == "running")

    _while_guarded(job, act)


@pytest.mark.parametrize("gone", [False, True])
def test_who_brings_a_job_up_meets_no_guard_that_has_nothing_to_thaw(
    job: Living, monkeypatch: pytest.MonkeyPatch, *, gone: bool
) -> None:
    """What an earlier life of the job has left says that it was frozen."""
    fence.mark(job.host.paths, JOB)
    if gone:
        job.engine.remove(JOB)

    def hold(*_: object, **__: object) -> NoReturn:
        raise AssertionError("it has the job's lock")

    monkeypatch.setattr(locks, "hold", hold)
    _while_guarded(job, lambda: until(lambda: not fence.marked(job.host.paths, JOB)))


def test_job_that_its_user_has_paused_is_not_thawed(job: Living) -> None:
    """While it may run, the guard has nothing to do with it."""

    def act() -> None:
        job.oci.freeze(job.container.id)
        _put_off(job)
        sleep(_LOOKS)
        assert job.status == "paused"

    _while_guarded(job, act)


def test_job_whose_capture_the_fence_has_met_is_thawed_once_the_lease_is_renewed(
    job: Living,
) -> None:
    """The capture leaves it frozen, since the time was over, and counts on the guard."""
    dump = job.oci.dump

    def slow(*of: Any, **more: Any) -> None:  # noqa: ANN401 # those of a dump
        _close(job)
        sleep(_LOOKS)
        dump(*of, **more)

    def act() -> None:
        job.save()
        assert job.status == "paused"
        sleep(_LOOKS)
        _put_off(job)
        until(lambda: job.status == "running", 10)

    job.oci.dump = slow  # type: ignore[method-assign]
    _while_guarded(job, act)


def test_job_that_an_earlier_guard_has_frozen_is_thawed_once_the_lease_is_renewed(
    job: Living,
) -> None:
    """That one was killed, and the supervisor has taken its place."""

    def before() -> None:
        _close(job)
        until(lambda: job.status == "paused")

    _while_guarded(job, before)

    def act() -> None:
        sleep(_LOOKS)
        _put_off(job)
        until(lambda: job.status == "running", 10)

    _while_guarded(job, act)


def _stand(here: Living, container: str | None) -> None:
    """Say what a supervisor does of its job's container."""
    now = "2026-12-01T10:00:00+00:00"
    said = Standing(
        pid=1,
        since=now,
        container=container,
        saving=False,
        next=now,
        interval=60.0,
        forecast=Forecast(1, 1, 0),
        saved=None,
        leaving=None,
    )
    standing.write(here.host.paths, JOB, said)


def test_job_is_frozen_in_time_though_its_engine_does_not_answer(job: Living) -> None:
    """An engine that is started anew lets its containers run on; runc freezes without it."""
    container = job.container.id
    _stand(job, container)

    def act() -> None:
        job.engine.silent = True
        _close(job)
        until(lambda: job.oci.status(container) == "paused")
        _put_off(job)
        until(lambda: job.oci.status(container) == "running")

    _while_guarded(job, act)


def test_container_that_no_supervisor_has_seen_yet_is_looked_for(job: Living) -> None:
    """It is just being brought up."""
    _stand(job, None)

    def act() -> None:
        _close(job)
        until(lambda: job.status == "paused")

    _while_guarded(job, act)


def test_engine_that_does_not_answer_is_asked_again(job: Living) -> None:
    """The guard outlives that."""
    container = job.container.id

    def act() -> None:
        job.engine.silent = True
        _close(job)
        sleep(_LOOKS)
        job.engine.silent = False
        until(lambda: job.oci.status(container) == "paused")

    _while_guarded(job, act)


def test_job_that_has_no_container_is_no_trouble(job: Living) -> None:
    """It has not come up yet, or is gone; neither before nor after its end."""

    def act() -> None:
        job.engine.remove(JOB)
        for change in (_close, _put_off):
            change(job)
            sleep(_LOOKS)

    _while_guarded(job, act)


def _told(folder: Path, line: str) -> int:
    """Write a line down, and return how many there are now."""
    with (folder / "told").open("a") as file:
        file.write(f"{line}\n")
    return len((folder / "told").read_text().splitlines())


@pytest.mark.parametrize(
    "crash",
    [
        lambda: guard.CRASHED,
        lambda: os.kill(os.getpid(), signal.SIGKILL),
        lambda: 1 // 0,
        lambda: 120,
    ],
    ids=["said", "killed", "raised", "with another code"],
)
def test_supervisor_that_has_crashed_begins_again(
    job: Living, tmp_path: Path, crash: Callable[[], int]
) -> None:
    """After a pause, as often as it takes; its good end is the guard's."""
    begun = monotonic()
    status = guard.guard(job.host, JOB, lambda: 85 if _told(tmp_path, "begun") == 3 else crash())
    assert (status, len((tmp_path / "told").read_text().splitlines())) == (85, 3)
    assert monotonic() - begun >= 0.2


def test_supervisor_that_has_crashed_says_why(
    job: Living, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In its log, which its errors go to."""

    def supervise() -> int:
        if _told(tmp_path, "begun") == 1:
            raise ZeroDivisionError("this is why")
        return 0

    guard.guard(job.host, JOB, supervise)
    assert "this is why" in capfd.readouterr().err


def test_supervisor_that_has_crashed_begins_again_where_its_log_is_full(
    job: Living, tmp_path: Path
) -> None:
    """It cannot say why, and ends as one that has crashed all the same."""

    def supervise() -> int:
        if _told(tmp_path, "begun") == 1:
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, 1)
            os.dup2(full, 2)
            sys.stdout = sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 # it dies with it
            sys.stdout.write("what cannot be said")
            raise ZeroDivisionError
        return 0

    assert guard.guard(job.host, JOB, supervise) == 0
    assert len((tmp_path / "told").read_text().splitlines()) == 2


def test_job_is_frozen_while_its_supervisor_is_not_there(
    job: Living, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause before it begins again is none for the guard."""
    monkeypatch.setattr(guard, "_PAUSE", 0.5)
    paused: list[bool] = []
    freeze = job.oci.freeze

    def noted(container: str) -> None:
        paused.append(not (tmp_path / "again").exists())
        freeze(container)

    monkeypatch.setattr(job.oci, "freeze", noted)

    def supervise() -> int:
        if _told(tmp_path, "begun") == 1:
            _close(job)
            return guard.CRASHED
        (tmp_path / "again").touch()
        return 0

    assert guard.guard(job.host, JOB, supervise) == 0
    assert paused == [True]


def _heeding(tmp_path: Path) -> int:
    """Be a supervisor that ends by SIGTERM, and says so."""
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    (tmp_path / "heeds").touch()
    until(lambda: told)
    return 85


def test_sigterm_is_passed_on_to_the_supervisor(job: Living, tmp_path: Path) -> None:
    """It is a notice, which the supervisor follows before the guard ends."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def act() -> None:
        until((tmp_path / "heeds").exists)
        os.kill(os.getpid(), signal.SIGTERM)

    with ThreadPoolExecutor(1) as beside:
        acted = beside.submit(act)
        assert guard.guard(job.host, JOB, lambda: _heeding(tmp_path)) == 85
    acted.result()
    assert signal.signal(signal.SIGTERM, before) is signal.SIG_IGN


def test_sigterm_between_two_supervisors_is_not_lost(
    job: Living, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is told, or the host goes with the job unsaved."""
    monkeypatch.setattr(guard, "_PAUSE", 0.5)
    lost: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: lost.append(number))

    def supervise() -> int:
        if _told(tmp_path, "begun") == 1:
            return guard.CRASHED
        return 85 if File(job.host.paths.notices / JOB).poll(0) else 0

    def act() -> None:
        until((tmp_path / "told").exists)
        sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)

    with ThreadPoolExecutor(1) as beside:
        acted = beside.submit(act)
        status = guard.guard(job.host, JOB, supervise)
    acted.result()
    assert (status, lost) == (85, [])


@pytest.mark.parametrize("spoilt", ["jobs", "supervisors", "fences", "no fence"])
def test_guard_freezes_a_job_of_which_it_can_read_no_more(job: Living, spoilt: str) -> None:
    """It has seen what the job runs in; what says nothing of its end puts that off no longer."""
    paths, container = job.host.paths, job.container.id
    job.take()
    _put_off(job)
    _stand(job, container)

    def act() -> None:
        sleep(_LOOKS)
        assert job.oci.status(container) == "running"
        for folder in (paths.jobs, paths.supervisors):
            if folder.name == spoilt:
                (folder / f"{JOB}.json").write_text("junk")
        if spoilt == "fences":
            (paths.fences / JOB).write_bytes(b"")
        elif spoilt == "no fence":
            (paths.fences / JOB).unlink()
        else:
            _close(job)
        until(lambda: job.oci.status(container) == "paused")

    _while_guarded(job, act)


def test_guard_freezes_where_there_is_no_room_for_its_note(
    job: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job may go on on another host."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fence, "mark", full)
    _while_guarded(job, lambda: _closed(job))


def test_guard_that_is_killed_as_it_freezes_has_noted_that(
    job: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nobody would thaw the job when its lease is back."""
    noted: list[bool] = []
    freeze = job.oci.freeze

    def noting(container: str) -> None:
        noted.append(fence.marked(job.host.paths, JOB))
        freeze(container)

    monkeypatch.setattr(job.oci, "freeze", noting)
    _while_guarded(job, lambda: _closed(job))
    assert noted[0]
