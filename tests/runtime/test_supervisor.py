"""The supervisor saves its job in time, and gives it up when it has gone, or has to."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from datetime import datetime
from queue import SimpleQueue
from time import monotonic, sleep
from typing import Final, Self

import msgspec
import pytest

from spotrun.hooks.notices import file
from spotrun.hooks.notices.notice import Kind as NoticeKind
from spotrun.hooks.notices.notice import Notice
from spotrun.hooks.notices.signals import Signals
from spotrun.images import lease, ledger
from spotrun.images.care import Care, Policy
from spotrun.images.errors import ExitCode, LeaseLost, NotCapturable, SpotrunError
from spotrun.images.manifest import Kind
from spotrun.images.process import Completed
from spotrun.runtime import (
    agent,
    beginning,
    chronicle,
    ending,
    fence,
    guard,
    jobs,
    leaving,
    listening,
    locks,
    restoring,
    saving,
    standing,
    supervisor,
    tenure,
    transaction,
    unsent,
)
from spotrun.runtime.engine import JOB_LABEL, TRANSACTION_LABEL
from spotrun.runtime.jobs import Place
from tests.fakes.living import COMMAND, IMAGE, JOB, Living, ended, hanging, stubborn, until
from tests.fakes.notices import ScriptedSource
from tests.fakes.observer import Listener
from tests.fakes.snapshots import NOW

_SAVE: Final = ("checkpoint", "--leave-running", JOB)
_RARELY: Final = Care(every="1h")
_A_WHILE: Final = 0.3
_DAY: Final = 86400.0


class _Supervised:
    """A job with a supervisor in a thread of this process."""

    def __init__(self, here: Living, cloud: ScriptedSource) -> None:
        """Have begun nothing yet."""
        self.here, self.cloud = here, cloud
        self.signals = Signals()
        self.saves: list[Callable[[], int]] = []
        """What becomes of the next ones; else they are made."""
        here.runner.on_spawn = self._spawned

    def supervise(self) -> int:
        """Look after it in this thread."""
        return supervisor.supervise(self.here.host, JOB, self.signals, self.here.listener)

    def notice(self, left: float | None, event: str = "1", *, order: bool = True) -> Notice:
        """Return a notice of the cloud's."""
        deadline = None if left is None else monotonic() + left
        return Notice("cloud", NoticeKind.STOP, event, "go", order=order, deadline=deadline)

    def say(self, *standing: Notice) -> None:
        """Have the cloud say that these stand."""
        self.cloud.say(standing)

    def _spawned(self, words: tuple[str, ...]) -> int:
        assert (words[:2], words[-1]) == (_SAVE[:2], JOB)
        if self.saves:
            return self.saves.pop(0)()
        try:
            self.here.save()
        except SpotrunError:
            return ended(ExitCode.OWN_ERROR)
        return ended(0)

    @property
    def snapshots(self) -> list[str]:
        """Return those that are committed."""
        return self.here.elsewhere.committed(JOB)

    @property
    def record(self) -> lease.Record:
        """That of the lease."""
        found = lease.read(self.here.elsewhere, JOB)
        assert found
        return found

    @property
    def said(self) -> standing.Standing:
        """How things stand."""
        until(lambda: standing.read(self.here.host.paths, JOB))
        found = standing.read(self.here.host.paths, JOB)
        assert found
        return found

    def events(self, kind: ledger.Kind) -> list[ledger.Event]:
        """Return those of a kind."""
        return [it for it in ledger.events(self.here.elsewhere, JOB) if it.kind == kind]


@pytest.fixture
def job(here: Living, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Supervised]:
    """Give a job that runs and waits for its supervisor, which does everything sooner."""
    for module, name, value in (
        (ending, "_STEP", 0.01),
        (beginning, "_STEP", 0.01),
        (supervisor, "_TICK", 0.05),
        (supervisor, "_FIRST", 0.0),
        (saving, "_STEP", 0.01),
        (leaving, "_AGAIN", 0.01),
    ):
        monkeypatch.setattr(module, name, value)
    cloud = ScriptedSource("cloud")
    monkeypatch.setattr(listening, "clouds", lambda: [cloud])
    here.begin(epoch=here.take().epoch, care=_RARELY)
    yield _Supervised(here, cloud)
    here.engine.close()


class _Running:
    """Runs a supervisor beside, to its end."""

    def __init__(self, job: _Supervised) -> None:
        self._job, self._pool = job, ThreadPoolExecutor(1)
        self._future: Future[int] | None = None

    def __enter__(self) -> Self:
        """Begin."""
        self._future = self._pool.submit(self._job.supervise)
        return self

    def __exit__(self, *_: object) -> None:
        """End the job, if it is still there, so that its supervisor ends."""
        here = self._job.here
        here.engine.silent, here.network.cut = False, False
        if not self.over:
            here.engine.remove(JOB)
        self._pool.shutdown()

    @property
    def over(self) -> bool:
        """Tell whether it has ended."""
        assert self._future
        return self._future.done()

    @property
    def status(self) -> int:
        """Wait for its exit code."""
        assert self._future
        return self._future.result(20)


def _first(job: _Supervised) -> None:
    """Wait until the first snapshot is made, and was learned from."""
    until(lambda: job.events("snapshot"))
    until(lambda: job.said.saved and not job.said.saving)


def test_job_is_saved_soon_after_its_begin(job: _Supervised) -> None:
    """By a process of its own; then not before it is due again."""
    with _Running(job):
        _first(job)
        sleep(_A_WHILE)
        assert job.here.runner.spawned == [_SAVE]
        (told,) = job.events("snapshot")
        assert [told.snapshot] == job.snapshots
        assert job.said.interval == 3600
        assert job.here.status == "running"


def test_line_is_left_to_the_job_as_far_as_its_user_wants(job: _Supervised) -> None:
    """Who saves it is told how fast it may send."""
    jobs.save(job.here.host.paths, replace(job.here.record, care=Care(upload_limit=4096)))
    with _Running(job):
        until(lambda: job.here.runner.spawned)
    assert job.here.runner.spawned[0] == (*_SAVE[:2], "--upload-limit=4096", JOB)


def test_snapshot_that_failed_is_tried_again(
    job: _Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sooner than the next one would be due."""
    monkeypatch.setattr(supervisor, "_RETRY", 0.05)
    job.saves = [lambda: ended(125), lambda: ended(1)]
    with _Running(job):
        _first(job)
        assert job.here.runner.spawned == [_SAVE] * 3


def test_snapshot_that_failed_is_told_of(job: _Supervised) -> None:
    """As long as none was made since: what is foretold may be worth nothing."""
    job.saves = [lambda: ended(125)]
    with _Running(job):
        until(lambda: job.said.failed)
        job.say(job.notice(None, order=False))
        _first(job)
        until(lambda: not job.said.failed)


def test_snapshots_never_overlap(job: _Supervised) -> None:
    """Whatever asks for one meanwhile."""
    job.saves = [hanging]
    with _Running(job):
        until(lambda: job.said.saving)
        job.say(job.notice(_DAY), job.notice(None, "2", order=False))
        sleep(_A_WHILE)
        assert job.here.runner.spawned == [_SAVE]


@pytest.mark.parametrize("left", [100.0, None])
def test_notice_is_followed(job: _Supervised, left: float | None) -> None:
    """The job is stored and gone, its lease given up; who gave the notice hears of it."""
    with _Running(job) as running:
        _first(job)
        notice = job.notice(left)
        job.say(notice)
        assert running.status == ExitCode.PREEMPTED
    assert job.here.engine.find(JOB) is None
    assert job.here.store.find(JOB, None).kind is Kind.LIVE
    assert len(job.snapshots) == 2
    assert (job.record.held, job.record.ended) == (False, None)
    (stopped,) = job.events("stopped")
    assert (stopped.reason, stopped.snapshot) == ("cloud: stop go", job.snapshots[-1])
    until(lambda: job.events("notice"))
    (told,) = job.events("notice")
    assert told.reason == "cloud: stop go"
    assert told.deadline == pytest.approx(left or 30, abs=2)
    assert job.cloud.acknowledged == [notice]
    assert standing.read(job.here.host.paths, JOB) is None


def test_notice_is_not_acknowledged_while_another_job_runs_here(job: _Supervised) -> None:
    """It needs the time that is left."""
    other = job.here.engine.create(
        ["--name=other", "--label=io.spotrun.job=other", "localhost/busybox:1"]
    )
    job.here.engine.start(other)
    record = replace(job.here.record, name="other", care=None)
    jobs.save(job.here.host.paths, record)
    with _Running(job) as running:
        job.say(job.notice(100))
        assert running.status == ExitCode.PREEMPTED
    assert job.cloud.acknowledged == []


def test_grace_of_the_user_counts_where_nobody_says_how_long(job: _Supervised) -> None:
    """Too little for a job like this one: what is stored counts."""
    jobs.save(job.here.host.paths, replace(job.here.record, care=Care(every="1h", grace=1)))
    with _Running(job) as running:
        _first(job)
        job.signals.receive(signal.SIGTERM, None)
        assert running.status == ExitCode.PREEMPTED
    assert any(it.startswith("fits in 1 s: no, ") for it in job.here.listener.notes)
    assert len(job.snapshots) == 1
    assert (job.here.record.place, job.here.record.parent) == (Place.STORED, job.snapshots[0])


def test_notice_that_is_given_by_hand_is_followed(job: _Supervised) -> None:
    """By a file, as `spotrun notice` and an attached `run` do."""
    with _Running(job) as running:
        file.give(job.here.host.paths.notices / JOB, 100, why="spotrun notice")
        assert running.status == ExitCode.PREEMPTED
    assert job.events("stopped")[0].reason == "spotrun notice"


def test_notice_command_is_the_users(job: _Supervised) -> None:
    """It ends with 0 when this host will go."""
    job.here.runner.script["sh", "-c", "going?"] = Completed(0, "90")
    care = Care(every="1h", notice_command="going?")
    jobs.save(job.here.host.paths, replace(job.here.record, care=care))
    with _Running(job) as running:
        assert running.status == ExitCode.PREEMPTED
    assert job.events("stopped")[0].reason == "command: preempt 90"


def test_notice_for_a_later_day_is_a_snapshot_at_first(job: _Supervised) -> None:
    """And the job runs on; it stays if the notice is called off."""
    with _Running(job) as running:
        _first(job)
        job.say(job.notice(2 * _DAY))
        until(lambda: len(job.snapshots) == 2)
        until(lambda: job.said.leaving == "go")
        job.say()
        until(lambda: job.said.leaving is None)
        sleep(_A_WHILE)
        assert not running.over
        assert job.here.status == "running"


def test_notice_for_later_is_followed_when_its_time_comes(job: _Supervised) -> None:
    """Minutes before the deadline, and not sooner."""
    with _Running(job) as running:
        _first(job)
        job.say(job.notice(agent.FAR + 2))
        until(lambda: len(job.snapshots) == 2)
        sleep(_A_WHILE)
        assert not running.over
        assert running.status == ExitCode.PREEMPTED
    assert len(job.snapshots) == 3


def test_nearer_of_two_notices_counts(job: _Supervised) -> None:
    """Whichever came first."""
    with _Running(job) as running:
        _first(job)
        soon = job.notice(agent.FAR + 1.5, "soon")
        job.say(soon)
        until(lambda: job.said.leaving)
        job.say(soon, job.notice(7 * _DAY, "later"))
        until(lambda: running.over, 6)
        assert running.status == ExitCode.PREEMPTED


def test_notice_stands_although_another_one_is_called_off(job: _Supervised) -> None:
    """Each is of its own event."""
    with _Running(job):
        _first(job)
        first, second = job.notice(7 * _DAY, "first"), job.notice(2 * _DAY, "second")
        job.say(first)
        until(lambda: job.said.leaving)
        job.say(first, second)
        until(lambda: len(job.events("notice")) == 2)
        job.say(first)
        until(lambda: any("called off" in it for it in job.here.listener.notes))
        sleep(_A_WHILE)
        assert job.said.leaving


def test_advice_is_a_snapshot_and_nothing_else(job: _Supervised) -> None:
    """However little time it leaves."""
    with _Running(job) as running:
        _first(job)
        job.say(job.notice(10, order=False))
        until(lambda: len(job.snapshots) == 2)
        sleep(_A_WHILE)
        assert (running.over, job.here.status, job.said.leaving) == (False, "running", None)


@pytest.mark.parametrize("save", [hanging, stubborn])
def test_snapshot_under_way_makes_way_for_the_last_one(
    job: _Supervised, save: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told to end, and killed if it does not."""
    monkeypatch.setattr(saving, "_TAKEN_BACK", 0.3)
    job.saves = [save]
    with _Running(job) as running:
        until(lambda: job.said.saving)
        job.say(job.notice(100))
        assert running.status == ExitCode.PREEMPTED
    assert len(job.snapshots) == 1


def test_lost_lease_ends_the_job_here(job: _Supervised) -> None:
    """It is frozen at once, and gone; nothing is stored any more, and where it is is noted."""
    job.here.host = replace(job.here.host, lease_seconds=6.0)
    job.saves = [hanging]
    frozen: list[str] = []
    freeze = job.here.oci.freeze

    def noted(container: str) -> None:
        frozen.append(container)
        freeze(container)

    job.here.oci.freeze = noted  # type: ignore[method-assign]
    container = job.here.container.id
    with _Running(job) as running:
        until(lambda: job.said.saving)
        job.here.lose()
        assert running.status == ExitCode.OK
    assert frozen == [container]
    assert job.here.engine.find(JOB) is None
    assert (job.here.record.place, job.here.record.target) == (Place.MOVED, "host-b")
    assert tenure.of(job.here.host.paths, JOB) is None
    assert (job.record.held, job.record.host) == (True, "host-b")
    assert [it.reason for it in job.events("lost")] == ["host-b has it"]
    assert job.snapshots == []


def test_lease_that_was_lost_while_nobody_looked_is_found_lost(job: _Supervised) -> None:
    """The supervisor has crashed, and begins again too late."""
    job.here.lose()
    assert job.supervise() == ExitCode.OK
    assert job.here.engine.find(JOB) is None
    assert job.here.record.target == "host-b"


def test_lease_that_a_failed_migration_has_taken_back_is_gone_on_with(job: _Supervised) -> None:
    """By a supervisor that begins again, under the new one; the job is not ended."""
    noted = tenure.of(job.here.host.paths, JOB)
    assert noted
    job.here.take()
    found = supervisor.Supervisor(job.here.host, noted, SimpleQueue(), Listener())
    assert found.shut_out(LeaseLost(job=JOB, reason="x")) == guard.CRASHED
    assert job.here.engine.find(JOB)


@pytest.mark.parametrize("code", [0, 7])
def test_job_that_ends_by_itself_is_told_with_its_exit_code(job: _Supervised, code: int) -> None:
    """In the ledger and in the lease, which is free."""
    with _Running(job) as running:
        _first(job)
        job.here.engine.end(JOB, code)
        assert running.status == ExitCode.OK
    assert (job.record.held, job.record.ended) == (False, code)
    assert [it.reason for it in job.events("ended")] == [f"exit code {code}"]
    assert tenure.of(job.here.host.paths, JOB) is None


def test_exit_code_of_a_job_whose_container_is_gone_is_known(job: _Supervised) -> None:
    """With --rm; else a job that has ended well would be run again."""
    job.here.engine.remove(JOB)
    job.here.begin("--rm", epoch=1, care=_RARELY)
    with _Running(job) as running:
        _first(job)
        job.here.engine.end(JOB, 0)
        assert running.status == ExitCode.OK
    assert job.record.ended == 0


@pytest.mark.parametrize("code", [0, 7])
def test_end_that_nobody_has_seen_is_known(job: _Supervised, code: int) -> None:
    """Of a job that takes no time, with --rm: its engine tells of it when all is over."""
    job.here.engine.remove(JOB)
    job.here.begin("--rm", epoch=1, care=_RARELY)
    job.here.engine.end(JOB, code)
    assert job.supervise() == ExitCode.OK
    assert (job.record.held, job.record.ended) == (False, code)
    assert [it.reason for it in job.events("ended")] == [f"exit code {code}"]


def test_end_before_the_lease_was_taken_is_another_lifes(job: _Supervised) -> None:
    """This one has not begun, and is nothing that must not be run again."""
    job.here.engine.end(JOB, 0)
    job.here.engine.remove(JOB)
    tenure.give_up(job.here.host, JOB)
    job.here.take()
    jobs.save(job.here.host.paths, replace(job.here.record, epoch=2))
    job.supervise()
    assert (job.record.held, job.record.ended) == (False, None)


def test_job_that_ended_while_it_was_being_saved_is_told_of(job: _Supervised) -> None:
    """The snapshot is taken back."""
    job.saves = [hanging]
    with _Running(job) as running:
        until(lambda: job.said.saving)
        job.here.engine.end(JOB, 3)
        assert running.status == ExitCode.OK
    assert job.record.ended == 3


def test_job_that_its_user_starts_again_is_no_ended_one(job: _Supervised) -> None:
    """As `spotrun restart` does, with the job's lock."""
    with _Running(job) as running:
        _first(job)
        host = job.here.host
        with locks.hold(host.paths.locks, JOB, "restart", NOW, wait=True):
            job.here.engine.end(JOB, 137)
            sleep(_A_WHILE)
            job.here.engine.start(JOB)
        sleep(_A_WHILE)
        assert not running.over
        job.here.engine.end(JOB, 7)
        assert running.status == ExitCode.OK
    assert job.record.ended == 7


def test_job_that_its_user_has_stored_has_left(job: _Supervised) -> None:
    """It can go on elsewhere at once."""
    with _Running(job) as running:
        _first(job)
        saved = job.here.save(leave_running=False)
        assert running.status == ExitCode.PREEMPTED
    assert (job.record.held, job.record.ended) == (False, None)
    (stopped,) = job.events("stopped")
    assert (stopped.reason, stopped.snapshot) == ("by its user", saved.snapshot)


def test_engine_that_does_not_answer_has_not_ended_the_job(job: _Supervised) -> None:
    """It is asked again, until it says what has become of it."""
    with _Running(job) as running:
        _first(job)
        job.here.engine.silent = True
        until(lambda: any("it does not answer" in it for it in job.here.listener.notes))
        assert (running.over, job.record.held) == (False, True)
        job.here.engine.silent = False
        sleep(_A_WHILE)
        assert (running.over, job.record.held) == (False, True)


def test_lease_is_not_given_up_while_the_engine_does_not_answer(job: _Supervised) -> None:
    """The supervisor begins again after a crash; the job runs, and another host would get it."""
    job.here.engine.silent = True
    with _Running(job) as running:
        sleep(_A_WHILE)
        assert (running.over, job.record.held) == (False, True)
        job.here.engine.silent = False
        until(lambda: job.snapshots)


def test_store_that_does_not_answer_at_the_begin_is_asked_again(job: _Supervised) -> None:
    """By a supervisor that begins again; the guard sees to the job's end meanwhile."""
    job.here.network.cut = True
    assert job.supervise() == guard.CRASHED
    assert tenure.of(job.here.host.paths, JOB)
    assert job.here.status == "running"


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("launched", [False, True])
def test_job_that_is_not_here_needs_nobody_unless_it_is_being_brought_up(
    job: _Supervised, *, launched: bool, stored: bool
) -> None:
    """Else one that was removed, or has left, is looked after until its store is back."""
    paths = job.here.host.paths
    if stored:
        jobs.save(paths, replace(job.here.record, place=jobs.Place.STORED))
    else:
        jobs.forget(paths, JOB)
    job.here.network.cut = True
    bringing = locks.hold(paths.supervisors, f"{JOB}~launch", "run", NOW, wait=True)
    with bringing if launched else nullcontext():
        assert job.supervise() == (guard.CRASHED if launched else ExitCode.OK)


def test_supervisor_of_no_lease_ends_at_once(job: _Supervised) -> None:
    """Its job has gone before it began."""
    tenure.give_up(job.here.host, JOB)
    assert job.supervise() == ExitCode.OK
    assert job.here.runner.spawned == []


@pytest.mark.parametrize("stale", [False, True])
def test_lease_is_given_up_if_nobody_brings_the_job_up(job: _Supervised, *, stale: bool) -> None:
    """A container of an earlier life is none of this one's."""
    if stale:
        jobs.save(job.here.host.paths, replace(job.here.record, epoch=0))
    else:
        job.here.engine.remove(JOB)
    assert job.supervise() == ExitCode.OK
    assert "nobody has brought the job up" in job.here.listener.notes
    assert not job.record.held


@pytest.mark.parametrize("silent", [False, True])
def test_what_a_killed_run_has_made_is_removed_before_the_lease_is_given_up(
    job: _Supervised, *, silent: bool
) -> None:
    """Its engine would start it, beside the job that goes on elsewhere."""
    here = job.here
    here.engine.remove(JOB)
    here.engine.create([f"--name={JOB}", f"--label={JOB_LABEL}={JOB}", IMAGE, *COMMAND])
    (here.host.paths.supervisors / f"{JOB}~launch.lock").write_text("17")
    here.engine.silent = silent
    with _Running(job) as running:
        if silent:
            sleep(_A_WHILE)
            assert job.record.held
            here.engine.silent = False
        until(lambda: running.over)
    assert here.engine.find(JOB) is None
    assert not job.record.held


def test_next_snapshot_waits_until_the_last_one_has_kept_to_the_limit(job: _Supervised) -> None:
    """However small each is: the average counts."""
    care = replace(_RARELY, every="10s", upload_limit=1)
    jobs.save(job.here.host.paths, replace(job.here.record, care=care))
    with _Running(job):
        _first(job)
        due = datetime.fromisoformat(job.said.next) - job.here.host.clock.now()
        sent = job.events("snapshot")[0].bytes
        assert sent / 2 < due.total_seconds() < sent + 100


def _restore_is_killed(job: _Supervised, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Leave a restore whose container the engine starts all the same.

    What is given gets, at each removal of it, whether the lease is still held.
    """
    here, attempt = job.here, "of-one-that-was-killed"
    manifest = here.save()
    here.engine.remove(JOB)
    jobs.forget(here.host.paths, JOB)
    labels = [f"--label={JOB_LABEL}={JOB}", f"--label={TRANSACTION_LABEL}={attempt}"]
    container = here.engine.create([f"--name={JOB}", *labels, IMAGE, *COMMAND])
    here.engine.start(container)
    state = restoring.RestoreState(
        job=JOB,
        manifest=manifest,
        store=here.address,
        epoch=2,
        attempt=attempt,
        container=container,
    )
    entry = transaction.Entry("restore", JOB, "start", msgspec.Raw(msgspec.json.encode(state)))
    place = here.host.paths.journal / f"{JOB}.json"
    place.write_bytes(msgspec.json.encode(entry))
    held: list[bool] = []
    remove = here.engine.remove

    def removing(name: str) -> None:
        held.append(job.record.held)
        remove(name)

    monkeypatch.setattr(here.engine, "remove", removing)
    return held


def test_restore_of_who_was_killed_is_taken_back_before_the_lease_is_given_up(
    job: _Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine goes on with it, and the job would run here and where it goes on next."""
    held = _restore_is_killed(job, monkeypatch)
    assert job.supervise() == ExitCode.OK
    assert held == [True]
    assert job.here.engine.find(JOB) is None
    assert not job.record.held


def test_lease_is_kept_while_a_killed_restore_cannot_be_taken_back(
    job: _Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whether the job runs here."""
    monkeypatch.setattr(beginning, "_SILENT", 0.01)
    _restore_is_killed(job, monkeypatch)
    place = job.here.host.paths.journal / f"{JOB}.json"
    entry = place.read_bytes()
    place.write_text("junk")
    with _Running(job) as running:
        until(lambda: [it for it in job.here.listener.notes if "cannot be read" in it])
        assert not running.over
        assert job.record.held
        place.write_bytes(entry)
        until(lambda: running.over)
    assert job.here.engine.find(JOB) is None


def test_job_that_had_ended_and_does_not_begin_has_ended_still(job: _Supervised) -> None:
    """A restore that fails is no reason to run it once more."""
    here = job.here
    tenure.give_up(here.host, JOB, ended=0)
    here.take(above=5)
    here.engine.remove(JOB)
    job.supervise()
    assert (job.record.held, job.record.ended) == (False, 0)


def test_container_that_never_ran_is_no_end_of_its_job(job: _Supervised) -> None:
    """Its exit code is none: a command that is not there leaves a container, too."""
    job.here.engine.remove(JOB)
    job.here.engine.create([f"--name={JOB}", f"--label={JOB_LABEL}={JOB}", IMAGE, *COMMAND])
    assert job.supervise() == ExitCode.OK
    assert (job.record.held, job.record.ended) == (False, None)


def test_job_that_is_being_brought_up_is_waited_for(job: _Supervised) -> None:
    """As long as whoever does it is alive."""
    job.here.engine.remove(JOB)
    folder = job.here.host.paths.supervisors
    with ExitStack() as over:
        with locks.hold(folder, f"{JOB}~launch", "run", NOW, wait=True):
            running = over.enter_context(_Running(job))
            sleep(_A_WHILE)
            assert not running.over
            job.here.begin(epoch=1, care=_RARELY)
        _first(job)
        assert not running.over


def test_job_that_has_ended_before_it_was_seen_to_run_is_told_of(job: _Supervised) -> None:
    """Some take no time."""
    job.here.engine.end(JOB, 7)
    assert job.supervise() == ExitCode.OK
    assert job.record.ended == 7


def test_supervisor_whose_guard_was_killed_becomes_one(
    job: _Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins the program again; what it is just saving is taken back before."""

    class Begun(Exception):
        """Another program has taken its place."""

    called: list[list[str]] = []

    def execv(path: str, argv: list[str]) -> None:
        called.append([path, *argv])
        raise Begun

    monkeypatch.setattr(os, "execv", execv)
    job.saves = [hanging]
    with _Running(job) as running:
        until(lambda: job.said.saving)
        monkeypatch.setattr(os, "getppid", lambda: 1)
        with pytest.raises(Begun):
            running.status  # noqa: B018 # a property that waits
    ((path, *argv),) = called
    assert (path, argv[-2:]) == (argv[0], ["supervise", JOB])
    assert tenure.of(job.here.host.paths, JOB)


def test_agent_of_the_host_is_left_to_listen_to_clouds(job: _Supervised) -> None:
    """When it has died, the supervisor begins again, with ears of its own."""
    with agent.serving(job.here.host), _Running(job) as running:
        _first(job)
        assert job.cloud.polls == 0
        file.give(job.here.host.paths.notices / JOB, _DAY, why="")
        until(lambda: len(job.snapshots) == 2)
    with agent.serving(job.here.host):
        job.here.begin(epoch=job.here.take().epoch, care=_RARELY)
        running = _Running(job)
        running.__enter__()
        until(lambda: standing.read(job.here.host.paths, JOB))
    assert running.status == guard.CRASHED
    assert job.here.status == "running"


def test_only_those_snapshots_stay_that_the_user_wants(job: _Supervised) -> None:
    """They are pruned after each."""
    care = Care(every="1s", keep=Policy(1, 0, 0, 0))
    jobs.save(job.here.host.paths, replace(job.here.record, care=care))
    with _Running(job):
        until(lambda: len(job.events("snapshot")) == 2)
        until(lambda: len(job.snapshots) == 1)
        assert job.snapshots == [job.events("snapshot")[-1].snapshot]


@pytest.mark.parametrize("fresh", [False, True])
def test_job_that_begins_anew_by_its_users_wish_goes_on_from_nothing_before(
    job: _Supervised, *, fresh: bool
) -> None:
    """Its lease says so once it runs, wherever it comes to next."""
    noted = tenure.of(job.here.host.paths, JOB)
    assert noted
    tenure.note(job.here.host.paths, replace(noted, fresh=fresh))
    with _Running(job):
        _first(job)
        assert job.record.anew == (noted.epoch if fresh else 0)


def test_snapshots_of_the_time_before_a_fresh_start_stay(job: _Supervised) -> None:
    """Whatever policy there is: it may have begun anew by an error."""
    here = job.here
    before = here.save().snapshot
    here.engine.remove(JOB)
    jobs.forget(here.host.paths, JOB)
    tenure.give_up(here.host, JOB)
    epoch = here.take().epoch
    chronicle.write(here.host, JOB, here.address, "started", epoch=epoch)
    here.begin(epoch=epoch, care=Care(every="1s", keep=Policy(1, 0, 0, 0)))
    with _Running(job):
        until(lambda: len(job.events("snapshot")) == 4)
        until(lambda: len(job.snapshots) == 2)
        assert job.snapshots == [before, job.events("snapshot")[-1].snapshot]


def test_store_that_is_away_when_the_host_goes_does_not_keep_the_job_here(
    job: _Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its snapshot is kept on this host, and others wait for its lease."""
    monkeypatch.setattr(leaving, "_TRIES", 1)
    with _Running(job) as running:
        _first(job)
        job.here.network.cut = True
        file.give(job.here.host.paths.notices / JOB, 10, why="")
        assert running.status == ExitCode.PREEMPTED
    assert job.here.engine.find(JOB) is None
    assert unsent.records(job.here.host)
    assert job.record.held


def test_job_that_was_frozen_at_its_end_is_not_let_run_by_a_snapshot(job: _Supervised) -> None:
    """Whoever is to thaw it, it is not who saves it."""
    with _Running(job):
        _first(job)
        fence.close(job.here.host.paths, JOB)
        job.here.oci.freeze(job.here.container.id)
        with pytest.raises(NotCapturable, match="paused"):
            job.here.save()
        assert job.here.status == "paused"


def test_job_that_goes_on_is_saved_again_when_that_is_due(
    job: _Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a snapshot, from which it has gone on; what that took tells of the next."""
    saved = job.here.save()
    monkeypatch.setattr(supervisor, "_FIRST", 1000.0)
    with _Running(job):
        assert job.said.forecast.basis == 1
        assert job.said.saved == saved.created
        sleep(_A_WHILE)
        assert job.here.runner.spawned == []


def test_snapshots_of_an_earlier_life_do_not_put_the_first_one_off(job: _Supervised) -> None:
    """The job has begun anew, and nothing of that is stored; but what it takes is known."""
    job.here.save()
    jobs.save(job.here.host.paths, replace(job.here.record, parent=None))
    with _Running(job):
        assert job.said.forecast.basis == 1
        until(lambda: len(job.snapshots) == 2)
