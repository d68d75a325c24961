"""What is saved of a job when its host goes is what there is time for, and it ends in any case."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, NoReturn

import pytest

from spotrun.images import lease
from spotrun.images.care import Care
from spotrun.images.errors import JobUnsaved, LeaseLost, NoRoom, NotCapturable, OciError
from spotrun.images.manifest import Kind, Manifest
from spotrun.images.patience import Patience
from spotrun.images.store import Store
from spotrun.runtime import capture, fence, jobs, leaving, listing, locks, transaction, unsent
from spotrun.runtime.captured import CaptureState
from spotrun.runtime.forecast import Forecast
from spotrun.runtime.host import Host
from spotrun.runtime.jobs import Place
from tests.fakes.living import JOB, Living, until
from tests.fakes.partitions import Fate, Passage
from tests.fakes.snapshots import NOW

_TAKES = Forecast(seconds=40.0, files_seconds=4.0, basis=3)
"""With what is set aside for surprises, 53 and 8 seconds."""


@pytest.fixture
def job(here: Living, monkeypatch: pytest.MonkeyPatch) -> Living:
    """Give a host with a job that is looked after, and has a snapshot."""
    monkeypatch.setattr(leaving, "_AGAIN", 0.02)
    here.begin(epoch=here.take().epoch)
    here.save()
    return here


def _leave(here: Living, left: float, foretold: Forecast = _TAKES) -> CaptureState | None:
    return leaving.leave(here.host, JOB, foretold, monotonic() + left, here.listener)


def _newest(here: Living) -> Manifest:
    return here.elsewhere.find(JOB, None)


def _failing_dump(here: Living, times: int) -> list[int]:
    """Have so many dumps fail, and return where each is counted."""
    dump, dumps = here.oci.dump, list[int]()

    def fail(*of: Any, **more: Any) -> None:  # noqa: ANN401 # those of a dump
        dumps.append(1)
        if len(dumps) <= times:
            raise OciError(action="dumping", reason="CRIU is in a bad mood")
        dump(*of, **more)

    here.oci.dump = fail  # type: ignore[method-assign]
    return dumps


@pytest.mark.parametrize(("left", "kind"), [(60, Kind.LIVE), (20, Kind.FILES)])
def test_as_much_is_saved_as_there_is_time_for(job: Living, left: float, kind: Kind) -> None:
    """All of it, or its files; then the job is gone."""
    state = _leave(job, left)
    assert state
    assert (_newest(job).snapshot, _newest(job).kind) == (state.snapshot, kind)
    assert (job.record.place, job.record.parent) == (Place.STORED, state.snapshot)
    assert job.engine.find(JOB) is None


def test_job_is_ended_when_there_is_time_for_nothing(job: Living) -> None:
    """Its last good snapshot counts."""
    before = _newest(job)
    assert _leave(job, 5) is None
    assert _newest(job) == before
    assert (job.record.place, job.record.parent) == (Place.STORED, before.snapshot)
    assert job.engine.find(JOB) is None


def test_job_without_any_snapshot_is_saved_with_hope(here: Living) -> None:
    """A guess is no reason to lose all of it."""
    here.begin(epoch=here.take().epoch)
    assert _leave(here, 1, Forecast(100, 50, 0))
    assert _newest(here).kind is Kind.FILES


def test_job_that_could_not_be_saved_at_all_has_left_all_the_same(here: Living) -> None:
    """It begins anew wherever it is run next, which its scheduler must know: 85."""
    here.begin(epoch=here.take().epoch, care=Care())
    assert _leave(here, 5) is None
    assert here.engine.find(JOB) is None
    assert jobs.has_left(here.host.paths, JOB)
    assert isinstance(jobs.absent(here.host.paths, JOB), JobUnsaved)
    assert listing.jobs_here(here.host, every=True) == []
    jobs.refuse_stored(here.host.paths, JOB)


@pytest.mark.parametrize("room", [True, False])
def test_job_leaves_a_host_that_has_no_room_left(
    here: Living, monkeypatch: pytest.MonkeyPatch, *, room: bool
) -> None:
    """Not even for the note that it has left, which goes where the old one was."""
    here.begin(epoch=here.take().epoch)
    made = here.save()

    def full(path: Path, *_: object) -> NoReturn:
        raise NoRoom(folder=path.parent)

    monkeypatch.setattr(jobs, "write_json", full)
    if not room:
        monkeypatch.setattr(jobs, "overwrite", full)
    with suppress(NoRoom) if not room else nullcontext():
        leaving.drop(here.host, JOB)
    assert here.engine.find(JOB) is None
    if room:
        assert (here.record.place, here.record.parent) == (Place.STORED, made.snapshot)


def test_snapshot_that_failed_is_tried_again(job: Living) -> None:
    """What was in its way may pass; each failure is told."""
    dumps = _failing_dump(job, 2)
    assert _leave(job, 60)
    assert (len(dumps), _newest(job).kind) == (3, Kind.LIVE)
    assert ["CRIU is in a bad mood" in it for it in job.listener.notes] == [True, True]


def test_files_are_saved_if_nothing_more_can_be(job: Living) -> None:
    """After a few tries."""
    dumps = _failing_dump(job, 1000)
    assert _leave(job, 60)
    assert (1 < len(dumps) < 10, _newest(job).kind) == (True, Kind.FILES)


def test_tries_end_with_the_time_for_them(job: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then files are saved while there is time for that."""
    monkeypatch.setattr(leaving, "_AGAIN", 0.5)
    dumps = _failing_dump(job, 1000)
    assert _leave(job, 53.3)
    assert (len(dumps), _newest(job).kind) == (1, Kind.FILES)


def test_lost_lease_ends_all_tries(job: Living) -> None:
    """The job is not ended here: who looks after it has more to do then."""
    job.lose()
    with pytest.raises(LeaseLost):
        _leave(job, 60)
    assert (job.status, job.record.place) == ("paused", Place.HERE)


def test_who_works_on_the_job_is_waited_for(job: Living) -> None:
    """Until the time is over; whoever it is then, the job is ended after them."""
    with locks.hold(job.host.paths.locks, JOB, "push", NOW, wait=False):
        leave = Thread(target=_leave, args=(job, 8.5))
        leave.start()
        until(lambda: any("is busy" in it for it in job.listener.notes))
        assert leave.is_alive()
    leave.join(10)
    assert job.engine.find(JOB) is None


def test_paused_job_is_saved_too(job: Living) -> None:
    """Its user has paused it, and may not be there to have it run on."""
    job.oci.freeze(job.container.id)
    assert _leave(job, 60)
    assert _newest(job).kind is Kind.LIVE


def test_job_that_its_fence_has_stopped_is_not_let_run(job: Living) -> None:
    """Not even for an instant; another host may have it by now."""
    thawed: list[str] = []
    thaw = job.oci.thaw

    def noted(container: str) -> None:
        thawed.append(container)
        thaw(container)

    job.oci.thaw = noted  # type: ignore[method-assign]
    fence.close(job.host.paths, JOB)
    job.oci.freeze(job.container.id)
    assert _leave(job, 60) is None
    assert thawed == []
    assert job.engine.find(JOB) is None


def test_snapshot_that_the_store_does_not_take_stays_here(job: Living) -> None:
    """The job is ended all the same, and the snapshot can be sent later."""
    job.network.cut = True
    assert _leave(job, 6, Forecast(1, 1, 1)) is None
    job.network.cut = False
    assert job.engine.find(JOB) is None
    (kept,) = unsent.records(job.host)
    assert (job.record.place, job.record.parent) == (Place.STORED, kept.snapshot)
    assert transaction.entries(job.host) == []


def test_store_that_does_not_answer_gets_its_share_of_the_time(
    job: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not minutes, as it would otherwise, in which the host goes with the job unsaved."""
    patience: list[Patience] = []
    opened = Host.store

    def store(host: Host, *of: Any, **more: Any) -> Store:  # noqa: ANN401 # whatever it takes
        patience.append(host.patience)
        return opened(host, *of, **more)

    monkeypatch.setattr(Host, "store", store)
    assert _leave(job, 20)
    assert patience[0] == Patience(patience[0].total, patience[0].total)
    assert 4 < patience[0].total < 5.1
    assert max(it.total for it in patience) <= 16


def test_nothing_is_asked_of_a_store_that_does_not_answer_any_more(
    job: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question would cost as much time again, until the job is ended."""
    monkeypatch.setattr(leaving, "_LAST", 100.0)
    asked: list[int] = []

    def silent() -> None:
        asked.append(1)

    with job.network.meanwhile(Passage(Fate.LOST, before=silent) for _ in range(100)):
        assert _leave(job, 20, Forecast(1, 30, 1)) is None
    assert len(asked) == 1
    (kept,) = unsent.records(job.host)
    assert kept.snapshot == job.record.parent


def test_snapshot_that_the_store_does_not_take_is_kept_once(job: Living) -> None:
    """Each takes as much time and room as the one before, and of all only the first can be sent."""
    job.network.cut = True
    _leave(job, 6, Forecast(1, 1, 1))
    job.network.cut = False
    (kept,) = unsent.records(job.host)
    assert job.host.store().load(JOB, kept.snapshot).kind is Kind.LIVE


@pytest.mark.parametrize(
    ("taker", "place", "target"),
    [(None, Place.STORED, None), ("host-b", Place.MOVED, "host-b")],
)
def test_dropped_job_is_where_it_goes_on(
    job: Living, taker: str | None, place: Place, target: str | None
) -> None:
    """At whoever has it, or wherever it is run next."""
    leaving.drop(job.host, JOB, taker=taker)
    assert (job.record.place, job.record.target) == (place, target)
    assert job.engine.find(JOB) is None
    leaving.drop(job.host, JOB, taker="another")
    assert job.record.target == target


def test_container_that_only_has_the_jobs_name_is_left_alone(here: Living) -> None:
    """It is somebody else's."""
    here.begin()
    here.engine.remove(JOB)
    here.engine.start(here.engine.create([f"--name={JOB}", "localhost/busybox:1", "other"]))
    leaving.drop(here.host, JOB)
    assert here.engine.find(JOB)


@pytest.mark.parametrize("left", [60, 20, 5])
def test_lease_is_still_this_hosts_afterwards(job: Living, left: float) -> None:
    """To give it up is the supervisor's, when all is done."""
    _leave(job, left)
    record = lease.read(job.elsewhere, JOB)
    assert record
    assert record.held


@pytest.mark.parametrize("left", [60, 20])
@pytest.mark.parametrize("spoil", [lambda _: None, lambda here: _failing_dump(here, 1)])
def test_nothing_is_left_of_what_was_tried(
    job: Living, left: float, spoil: Callable[[Living], object]
) -> None:
    """No journal, no files of a snapshot that is stored or taken back."""
    spoil(job)
    _leave(job, left)
    assert transaction.entries(job.host) == []
    assert list(job.host.paths.scratch.iterdir()) == []
    assert list(job.host.paths.memory.iterdir()) == []


def test_snapshot_that_is_kept_here_is_sent_if_its_store_answers_in_time(job: Living) -> None:
    """The job has ended by then: what it would do meanwhile would be lost."""

    def answer() -> None:
        until(lambda: job.engine.find(JOB) is None)
        job.network.cut = False

    job.network.cut = True
    beside = Thread(target=answer)
    beside.start()
    assert _leave(job, 20, Forecast(1, 1, 1)) is None
    beside.join()
    assert unsent.records(job.host) == []
    assert _newest(job).snapshot == job.record.parent


def test_last_snapshot_is_kept_here_if_its_store_is_full(
    job: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another than the last is refused beforehand."""
    monkeypatch.setattr(leaving, "_LAST", 100.0)
    monkeypatch.setattr(type(job.host.store(job.address).backend), "free", lambda _: 1)
    with pytest.raises(NotCapturable, match="must be"):
        capture.checkpoint(job.host, JOB, leave_running=True, store=None, observer=job.listener)
    assert _leave(job, 60) is None
    assert unsent.records(job.host)
