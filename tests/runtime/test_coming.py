"""A job goes on from the best that is stored of it, or begins, and nowhere twice."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from spotrun.images import lease, ledger, opening
from spotrun.images.address import Address
from spotrun.images.care import Care
from spotrun.images.errors import (
    EngineError,
    JobBusy,
    LeaseHeld,
    RestoreFailed,
    SpotrunError,
    StoreMissing,
    StoreUnavailable,
    Unsent,
    UsageError,
)
from spotrun.images.ledger import Event
from spotrun.images.manifest import Kind, Manifest
from spotrun.runtime import (
    chronicle,
    coming,
    fence,
    jobs,
    restoring,
    standing,
    supervising,
    tenure,
    unsent,
)
from spotrun.runtime.coming import Came, Wish
from spotrun.runtime.tenure import Tenure
from tests.fakes.living import COMMAND, IMAGE, JOB, Living, is_live, supervised
from tests.fakes.standings import said

_SECONDS = 10.0
_CODE = 23
"""With which the begin of a job ends."""


@pytest.fixture
def home(here: Living, monkeypatch: pytest.MonkeyPatch) -> Iterator[Living]:
    """Give a host where nobody looks long whether a job is well."""
    monkeypatch.setattr(restoring, "_PROBE_SECONDS", 0.0)
    with supervised(here):
        yield here


def _come(here: Living, **changes: Any) -> tuple[Came, list[int]]:  # noqa: ANN401 # any field
    """Let the job come; return the epochs at which it was begun, too."""
    begun: list[int] = []

    def begin(epoch: int) -> int:
        begun.append(epoch)
        return _CODE

    wish = Wish(job=JOB, store=here.address, care=Care())
    return coming.come(here.host, replace(wish, **changes), begin, here.listener), begun


def _left(here: Living, *kinds: Kind, **changes: Any) -> list[Manifest]:  # noqa: ANN401
    """Have had the job here, and have it saved; return its snapshots, the newest first."""
    here.begin(epoch=here.take().epoch, **changes)
    made = [here.save(it, leave_running=True) for it in kinds]
    here.engine.remove(JOB)
    jobs.forget(here.host.paths, JOB)
    tenure.give_up(here.host, JOB)
    return made[::-1]


def _fail(here: Living, *, live: bool = True, files: bool = False) -> None:
    """Have containers that are to be restored not start."""
    here.engine.failing = lambda words: live if is_live(words) else files


def _spoil(here: Living, snapshot: Manifest) -> None:
    """Damage a snapshot's manifest."""
    here.world.store.put(f"snapshots/{JOB}/{snapshot.snapshot}", b"{")


def _told(here: Living) -> Event:
    """Return what the ledger says last of a start."""
    found = [it for it in ledger.events(here.elsewhere, JOB) if it.kind in {"started", "restored"}]
    return found[-1]


def _summary(here: Living) -> ledger.Summary:
    return ledger.summarise(ledger.events(here.elsewhere, JOB))


def _record(here: Living) -> lease.Record:
    found = lease.read(here.elsewhere, JOB)
    assert found
    return found


def test_job_that_was_never_here_begins(home: Living) -> None:
    """At the epoch of its lease, which it has by then."""
    assert _come(home) == (Came("fresh", exit_code=_CODE), [1])
    assert (_record(home).held, _record(home).epoch) == (True, 1)
    assert (_told(home).kind, _told(home).rung, _told(home).reason) == ("started", "fresh", "")


def test_store_is_made_where_there_is_none(home: Living) -> None:
    """The first command line is no other than the later ones."""
    home.world.store.delete(["store.json"])
    assert _come(home)[0].rung == "fresh"


def test_job_goes_on_from_its_newest_snapshot(home: Living) -> None:
    """With what its user wants now, and under the lease of this host."""
    newest, _ = _left(home, Kind.LIVE, Kind.LIVE)
    care = Care(every="7m")
    before = home.host.clock.now()
    came, begun = _come(home, care=care)
    assert came.since
    assert before < came.since < home.host.clock.now()
    assert (came, begun) == (Came("live", snapshot=newest.snapshot), [])
    assert home.container.running
    record = home.record
    assert (record.epoch, record.parent, record.care) == (2, newest.snapshot, care)
    told = _told(home)
    assert (told.kind, told.rung, told.snapshot, told.epoch, told.reason) == (
        "restored",
        "live",
        newest.snapshot,
        2,
        "",
    )
    assert told.seconds > 0


def test_rung_that_fails_leads_to_the_next(home: Living) -> None:
    """Older ones alive first, then files, the newest first; why is in the ledger."""
    made = _left(home, Kind.LIVE, Kind.LIVE)
    _fail(home)
    came, _ = _come(home)
    assert came == Came("files", snapshot=made[0].snapshot)
    reasons = _told(home).reason.split("; ")
    assert [it.partition(":")[0] for it in reasons] == [f"live from {it.snapshot}" for it in made]
    assert all("it cannot be started" in it for it in home.listener.notes)


def test_job_begins_when_nothing_that_is_stored_can_go_on(home: Living) -> None:
    """What is stored stays; that is told."""
    made = _left(home, Kind.LIVE)
    _fail(home, files=True)
    assert _come(home) == (Came("fresh", exit_code=_CODE), [2])
    assert "can go on here: it begins anew" in home.listener.notes[-1]
    assert f"files from {made[0].snapshot}: " in _told(home).reason
    assert home.elsewhere.committed(JOB) == [made[0].snapshot]
    assert home.engine.find(JOB) is None


def test_damaged_snapshot_is_passed_over(home: Living) -> None:
    """And told of, once for each rung that it might have been."""
    newest, older = _left(home, Kind.LIVE, Kind.LIVE)
    _spoil(home, newest)
    came, _ = _come(home)
    assert came == Came("live", snapshot=older.snapshot)
    assert "is damaged" in _told(home).reason


def test_no_more_than_three_snapshots_are_tried_alive(home: Living) -> None:
    """A host that none fits finds out soon."""
    made = _left(home, *[Kind.LIVE] * 5)
    _fail(home, files=True)
    _come(home)
    tried = [it.partition(":")[0] for it in _told(home).reason.split("; ")]
    assert tried == [f"{kind} from {it.snapshot}" for kind in Kind for it in made[:3]]


@pytest.mark.parametrize(("command", "rung", "at"), [(None, "live", 1), ("resume", "files", 0)])
def test_newest_files_come_first_only_for_who_has_a_command_for_them(
    home: Living, command: str | None, rung: ledger.Rung, at: int
) -> None:
    """The framework's own checkpoint in them is newer than all that is alive."""
    home.begin(epoch=home.take().epoch)
    alive = home.save()
    files = home.save(Kind.FILES, leave_running=False)
    jobs.forget(home.host.paths, JOB)
    tenure.give_up(home.host, JOB)
    came, _ = _come(home, care=Care(resume_command=command))
    assert came == Came(rung, snapshot=[files, alive][at].snapshot)


def test_store_that_cannot_be_asked_what_it_has_is_no_rungs_fault(home: Living) -> None:
    """To begin anew would not be right: it may be back soon."""
    _left(home, Kind.LIVE)
    home.network.cut = True
    with pytest.raises(StoreUnavailable):
        _come(home)


def test_store_that_goes_away_while_it_is_read_is_no_rungs_fault(
    home: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older snapshots, or none, are no answer to trouble with the network."""
    _left(home, Kind.LIVE, Kind.LIVE)
    read, reads = home.store.read, list[str]()

    def away(hold: str, job: str, host: str) -> None:
        reads.append(hold)
        if len(reads) == 1:
            raise StoreUnavailable(store="s3://b", reason="it went away")
        read(hold, job, host)

    monkeypatch.setattr(home.store, "read", away)
    with pytest.raises((StoreUnavailable, RestoreFailed), match="it went away"):
        _come(home)


def test_registry_that_does_not_answer_is_no_rungs_fault(home: Living) -> None:
    """It may answer when the job is begun anew a moment later, and all its work be lost."""
    _left(home, Kind.LIVE)
    home.engine.command(["rmi", "localhost/busybox:1"])
    with pytest.raises(SpotrunError, match="connection refused"):
        _come(home)


def test_job_that_has_ended_well_is_not_run_again(home: Living) -> None:
    """On any host, and no lease is taken for that."""
    _left(home, Kind.LIVE)
    home.take()
    tenure.give_up(home.host, JOB, ended=0)
    before = _record(home)
    assert _come(home) == (Came(None, exit_code=0), [])
    assert _record(home) == before


@pytest.mark.parametrize("ended", [1, 137, None])
def test_job_that_has_ended_otherwise_goes_on(home: Living, ended: int | None) -> None:
    """From its last snapshot."""
    (saved,) = _left(home, Kind.LIVE)
    home.take()
    tenure.give_up(home.host, JOB, ended=ended)
    assert _come(home)[0] == Came("live", snapshot=saved.snapshot)


@pytest.mark.parametrize("exit_code", [0, 1])
def test_container_that_has_ended_makes_way(home: Living, exit_code: int) -> None:
    """Whatever it has left is not what the job goes on from."""
    home.begin(epoch=home.take().epoch)
    saved = home.save()
    old = home.container
    home.engine.end(JOB, exit_code)
    tenure.give_up(home.host, JOB, ended=1)
    assert _come(home)[0] == Came("live", snapshot=saved.snapshot)
    assert home.container.id != old.id
    assert home.engine.find(old.id) is None


@pytest.mark.parametrize("ended", [0, 1, None])
def test_fresh_begins_anew_and_keeps_what_is_stored(home: Living, ended: int | None) -> None:
    """Whether the job has come to its end or not; the record of its past is gone."""
    home.begin(epoch=home.take().epoch)
    saved = home.save()
    home.engine.end(JOB, 0)
    tenure.give_up(home.host, JOB, ended=ended)
    assert _come(home, fresh=True) == (Came("fresh", exit_code=_CODE), [2])
    noted = tenure.of(home.host.paths, JOB)
    assert noted
    assert noted.fresh
    assert home.engine.find(JOB) is None
    assert jobs.load(home.host.paths, JOB) is None
    assert home.elsewhere.committed(JOB) == [saved.snapshot]
    assert _told(home).reason == ""


def test_life_before_a_wished_begin_is_not_gone_on_from(home: Living) -> None:
    """Though the new one has no snapshot yet, or none that fits."""
    _left(home, Kind.LIVE, Kind.FILES)
    home.take()
    held = tenure.joined(home.host, JOB, home.address)
    assert held
    held.begin_anew()
    tenure.give_up(home.host, JOB)
    assert _come(home)[0].rung == "fresh"


def test_begin_that_nobody_wished_for_leaves_the_life_before(home: Living) -> None:
    """A probe may have been wrong, and a start may fail."""
    (saved,) = _left(home, Kind.LIVE)
    home.take()
    tenure.give_up(home.host, JOB)
    assert _come(home)[0] == Came("live", snapshot=saved.snapshot)


def test_fresh_spares_a_container_that_only_has_the_jobs_name(home: Living) -> None:
    """Its owner is told by the engine, which refuses another one of that name."""
    home.engine.create([f"--name={JOB}", "localhost/busybox:1", "other"])
    _come(home, fresh=True)
    assert home.engine.find(JOB)


def test_job_that_runs_here_unsupervised_is_taken_on(home: Living) -> None:
    """Where it is, at the epoch of the new lease; nothing is restored or begun."""
    home.begin(epoch=home.take().epoch)
    saved, before = home.save(), home.container
    care = Care(every="7m")
    assert _come(home, care=care) == (Came(None), [])
    assert (home.container, home.status) == (before, "running")
    record = home.record
    assert (record.epoch, record.parent, record.care) == (2, saved.snapshot, care)


def test_job_that_was_frozen_for_want_of_its_lease_is_thawed(home: Living) -> None:
    """Its supervisor and the guard are no more."""
    home.begin(epoch=home.take().epoch)
    fence.close(home.host.paths, JOB)
    home.oci.freeze(home.container.id)
    assert _come(home)[0] == Came(None)
    assert (home.status, fence.left(home.host.paths, JOB) > 0) == ("running", True)


def test_job_that_its_user_has_paused_is_taken_on_as_it_is(home: Living) -> None:
    """That was no matter of the lease."""
    home.begin(epoch=home.take().epoch)
    home.oci.freeze(home.container.id)
    assert _come(home)[0] == Came(None)
    assert home.status == "paused"


def test_job_that_another_host_has_had_meanwhile_goes_on_from_there(home: Living) -> None:
    """What still runs here is an earlier life: all who look after it were killed, and it is ended.

    Else the next snapshot would follow the other host's, which it did not begin with.
    """
    home.begin(epoch=home.take().epoch)
    first, stale = home.save(), home.container
    other = lease.Lease(home.elsewhere, JOB, host="host-b")
    other.acquire(dead=_record(home).holder)
    made = replace(home.store.load(JOB, first.snapshot), snapshot="20261201T110000Z-00000b")
    home.elsewhere.publish(replace(made, epoch=other.epoch, parent=first.snapshot), other)
    other.release()
    came, _ = _come(home)
    assert came == Came("live", snapshot=made.snapshot)
    assert home.engine.find(stale.id) is None


def test_lease_of_another_host_is_taken_by_force(home: Living) -> None:
    """Its user says that it is dead."""
    (saved,) = _left(home, Kind.LIVE)
    lease.Lease(home.elsewhere, JOB, host="host-b").acquire()
    assert _come(home, by_force=True)[0] == Came("live", snapshot=saved.snapshot)


def test_lease_is_taken_before_anything_is_looked_for(home: Living) -> None:
    """What another host stores while it is waited for is what the job goes on from."""
    (first,) = _left(home, Kind.LIVE)
    other = lease.Lease(home.elsewhere, JOB, host="host-b")
    other.acquire()
    newer = replace(first, snapshot="20261201T120000Z-00000c", epoch=other.epoch)

    def leave(text: str) -> None:
        home.elsewhere.publish(newer, other)
        other.release()
        home.listener.notes.append(text)

    home.listener.note = leave  # type: ignore[method-assign]
    assert _come(home)[0] == Came("live", snapshot=newer.snapshot)


def test_job_that_is_looked_after_here_is_left_as_it_is(home: Living) -> None:
    """Its terminal may have got lost, and the same command line is to have it again."""
    home.begin(epoch=home.take().epoch)
    _come(home)
    epoch = home.record.epoch
    assert _come(home) == (Came(None), [])
    assert len(home.runner.spawned) == 1
    assert home.record.epoch == epoch


def test_job_that_somebody_else_is_bringing_up_is_waited_for(home: Living) -> None:
    """Two of the same command line at one moment are one job, be the first one its terminal."""
    bringing = supervising.launching(home.host, JOB, home.address, tell=home.listener.note)
    with ThreadPoolExecutor(1) as pool, bringing as taken:
        second = pool.submit(_come, home)
        home.begin(epoch=taken.epoch)
        assert not second.done()
        standing.write(home.host.paths, JOB, said())
        assert second.result(_SECONDS) == (Came(None), [])
    assert len(home.runner.spawned) == 1


def test_job_that_somebody_else_brought_up_while_nobody_looked_is_there(
    home: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both found nothing, and one was faster."""
    home.begin(epoch=home.take().epoch)
    supervising.begin(home.host, JOB)
    looks = iter([False, True])
    monkeypatch.setattr(coming, "_is_here_soon", lambda *_: next(looks))
    monkeypatch.setattr(supervising, "await_end", lambda *_: None)
    assert _come(home) == (Came(None), [])


def test_job_that_somebody_else_does_not_bring_up_in_time_is_busy(
    home: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one may be waiting for another host."""
    monkeypatch.setattr(coming, "_PATIENCE", 0.2)
    bringing = supervising.launching(home.host, JOB, home.address, tell=home.listener.note)
    with bringing, pytest.raises(JobBusy, match="at 'run' since"):
        _come(home)


def test_job_that_is_looked_after_here_does_not_begin_anew(home: Living) -> None:
    """Who wants that is told how; other wishes than those that it has are said to wait."""
    home.begin(epoch=home.take().epoch)
    _come(home)
    with pytest.raises(UsageError, match=f"`spotrun stop {JOB}` it, to begin it anew"):
        _come(home, fresh=True)
    assert home.listener.notes == []
    assert _come(home, care=Care(every="7m")) == (Came(None), [])
    (said,) = home.listener.notes
    assert "runs here with other options" in said
    assert home.record.care == Care()


def test_snapshot_that_was_kept_here_is_sent_and_gone_on_from(home: Living) -> None:
    """The store could not take it when this host was about to go."""
    home.begin(epoch=home.take().epoch)
    home.save()
    home.network.cut = True
    with pytest.raises(Unsent):
        home.save()
    home.network.cut = False
    (kept,) = unsent.records(home.host)
    home.engine.remove(JOB)
    jobs.forget(home.host.paths, JOB)
    tenure.give_up(home.host, JOB)
    assert _come(home)[0] == Came("live", snapshot=kept.snapshot)
    assert unsent.records(home.host) == []


def test_store_that_is_away_is_not_made_anew(home: Living) -> None:
    """Its file system is not mounted, most likely: the job would begin anew."""
    home.begin(epoch=home.take().epoch)
    made = home.save(leave_running=False)
    tenure.give_up(home.host, JOB)
    there = {it.key: home.world.store.get(it.key) for it in home.world.store.list("")}
    home.world.store.delete(list(there))
    vars(opening)["_opened"].cache_clear()
    with pytest.raises(StoreMissing):
        _come(home)
    for key, raw in there.items():
        home.world.store.create(key, raw)
    assert _come(home)[0] == Came("live", snapshot=made.snapshot)


def test_failure_to_begin_is_the_callers(home: Living) -> None:
    """Its supervisor gives the lease up again."""

    def begin(_: int) -> int:
        raise EngineError(engine="podman", reason="no such image")

    wish = Wish(job=JOB, store=home.address, care=Care())
    with pytest.raises(EngineError):
        coming.come(home.host, wish, begin, home.listener)
    assert _summary(home).interruptions == 0


@pytest.mark.parametrize("code", [125, 126, 127])
def test_start_that_fails_is_no_interruption(home: Living, code: int) -> None:
    """Its history says so: how often a job is saved goes by how often it was interrupted."""
    wish = Wish(job=JOB, store=home.address, care=Care())
    assert coming.come(home.host, wish, lambda _: code, home.listener).exit_code == code
    last = ledger.events(home.elsewhere, JOB)[-1]
    assert (last.kind, last.reason) == ("ended", f"it could not be started: exit code {code}")
    chronicle.write(home.host, JOB, home.address, "started", epoch=2)
    assert _summary(home).interruptions == 0


def test_health_check_that_is_asked_for_and_missing_is_no_rungs_fault(home: Living) -> None:
    """The job does not begin anew by it: what is stored goes on once the probe is another."""
    (saved,) = _left(home, Kind.LIVE)
    with pytest.raises(UsageError, match="the container has no health check"):
        _come(home, care=Care(probe="healthcheck"))
    assert home.engine.find(JOB) is None
    assert home.elsewhere.committed(JOB) == [saved.snapshot]


def test_files_are_gone_on_with_where_the_processes_could_not_run(home: Living) -> None:
    """On a CPU that lacks what they have found: the command starts anew, and asks again."""
    home.begin(epoch=home.take().epoch)
    made = home.save()
    home.engine.remove(JOB)
    jobs.forget(home.host.paths, JOB)
    tenure.give_up(home.host, JOB)
    host = replace(made.host, cpu_flags=(*made.host.cpu_flags, "amx_tile_of_tomorrow"))
    home.world.store.delete([f"snapshots/{JOB}/{made.snapshot}"])
    held = lease.Lease(home.elsewhere, JOB, host="host-a")
    held.acquire()
    home.elsewhere.publish(replace(made, host=host, epoch=held.epoch), held)
    held.release()
    came, _ = _come(home)
    assert came == Came("files", snapshot=made.snapshot)
    assert home.engine.arguments(home.container.id)[-2:] == COMMAND


def test_name_that_cannot_be_a_jobs_is_refused(home: Living) -> None:
    """Before a lease is taken that nobody could give up."""
    with pytest.raises((UsageError, LeaseHeld)):
        _come(home, job="../train")


def test_copy_that_nobody_has_frozen_is_frozen_before_the_lease_is_waited_for(
    home: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who looked after it were killed, and another host may have the job by now."""
    home.begin(epoch=home.take().epoch)
    fence.close(home.host.paths, JOB)
    seen: list[str | None] = []

    def take(*_: object, **__: object) -> Tenure:
        seen.append(home.status)
        raise LeaseHeld(job=JOB, host="host-b")

    monkeypatch.setattr(tenure, "take", take)
    with pytest.raises(LeaseHeld):
        _come(home)
    assert seen == ["paused"]


def test_job_that_runs_here_is_refused_another_store(home: Living) -> None:
    """Its snapshots go where they go, and that is told."""
    home.begin(epoch=home.take().epoch)
    supervising.begin(home.host, JOB)
    with pytest.raises(UsageError, match="its snapshots go to "):
        _come(home, store=Address("/elsewhere"))


def test_container_that_only_has_the_jobs_name_is_not_looked_after(home: Living) -> None:
    """It is somebody else's, though the lease is this host's as before."""
    home.begin(epoch=home.take().epoch)
    home.engine.remove(JOB)
    home.engine.start(home.engine.create([f"--name={JOB}", IMAGE, "other"]))
    assert _come(home)[0].rung == "fresh"
