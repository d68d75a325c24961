"""A host knows which leases it has, also when the process that took one is no more."""

import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from spotrun.images import lease, ledger
from spotrun.images.address import Address
from spotrun.images.care import Care
from spotrun.images.errors import LeaseHeld, LeaseLost, StoreUnavailable, Unsent, UsageError
from spotrun.images.lease import Lease
from spotrun.images.manifest import Kind, Manifest
from spotrun.runtime import fence, tenure, unsent
from tests.fakes.living import JOB, Living, until
from tests.fakes.partitions import Fate, Passage


def _other(here: Living, duration: float = 60.0) -> Lease:
    """Return the lease as another host wants it."""
    return Lease(here.elsewhere, JOB, host="host-b", duration=duration)


def _record(here: Living) -> lease.Record:
    found = lease.read(here.elsewhere, JOB)
    assert found
    return found


def _keep(here: Living) -> Manifest:
    """Save the job while its store cannot be reached."""
    here.network.cut = True
    with pytest.raises(Unsent) as kept:
        here.save()
    here.network.cut = False
    return here.host.store().load(JOB, str(kept.value.fields["snapshot"]))


def test_lease_is_noted_with_where_it_is(here: Living) -> None:
    """And the fence is put off by as long as it is valid."""
    taken = here.take(above=4)
    assert tenure.of(here.host.paths, JOB) == taken
    assert (taken.epoch, taken.store) == (5, here.address)
    assert (_record(here).holder, _record(here).epoch) == (taken.holder, 5)
    assert 55 < fence.left(here.host.paths, JOB) <= 60 - fence.MARGIN


def test_host_that_has_taken_nothing_has_nothing(here: Living) -> None:
    """And gives nothing up."""
    assert tenure.of(here.host.paths, JOB) is None
    assert tenure.joined(here.host, JOB, here.address) is None
    tenure.give_up(here.host, JOB)
    assert lease.read(here.elsewhere, JOB) is None


def test_lease_that_a_dead_process_took_here_is_taken_at_once(here: Living) -> None:
    """Nobody renews it, or else the job would have a supervisor."""
    before = here.take()
    after = here.take()
    assert (after.epoch, after.holder != before.holder) == (before.epoch + 1, True)
    assert here.listener.notes == []


def test_lease_of_another_host_is_waited_for_and_told_of_once(here: Living) -> None:
    """However often that host is asked for; it is taken when it is given up."""
    other = _other(here)
    other.acquire()
    waiting = threading.Thread(target=here.take)
    waiting.start()
    for _ in range(3):
        until(lambda: here.listener.notes)
        other.renew()
        waiting.join(0.7)
        assert waiting.is_alive()
    other.release()
    waiting.join(5)
    assert not waiting.is_alive()
    assert here.listener.notes == [
        f"job {JOB!r} belongs to host host-b; it is taken when nothing is heard of that for 61 s"
    ]
    assert _record(here).epoch == 2


def test_lease_of_a_silent_host_is_taken_over(here: Living) -> None:
    """After its own time, and not this host's; who has it then is told, too."""
    _other(here, duration=0.3).acquire()
    here.take()
    assert len(here.listener.notes) == 1
    assert _record(here).epoch == 2


def test_next_host_that_is_waited_for_is_told_of_as_well(here: Living) -> None:
    """It is another one."""
    first = _other(here, duration=1.5)
    first.acquire()
    waiting = threading.Thread(target=here.take)
    waiting.start()
    until(lambda: here.listener.notes)
    Lease(here.elsewhere, JOB, host="host-c", duration=0.3).acquire(dead=first.holder)
    waiting.join(5)
    told = [it.partition(";")[0].rpartition(" ")[2] for it in here.listener.notes]
    assert told == ["host-b", "host-c"]


def test_lease_is_taken_from_a_host_that_is_alive_by_force(here: Living) -> None:
    """The user answers for it."""
    other = _other(here)
    other.acquire()
    here.take(by_force=True)
    assert here.listener.notes == []
    with pytest.raises(LeaseLost):
        other.renew()


def test_dead_process_of_this_host_is_no_reason_to_take_anothers_lease(here: Living) -> None:
    """The note names one holder; who has taken over since is waited for."""
    here.take()
    here.lose()
    waiting = threading.Thread(target=here.take)
    waiting.start()
    until(lambda: here.listener.notes)
    waiting.join(0.3)
    assert waiting.is_alive()
    other = lease.Lease(here.elsewhere, JOB, host="host-b")
    other.join(_record(here).holder, _record(here).epoch)
    other.release()
    waiting.join(5)
    assert not waiting.is_alive()


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.UNHEARD])
def test_lease_whose_store_does_not_answer_is_not_noted(here: Living, fate: Fate) -> None:
    """Nothing is to be done under it; the next try gets it, if need be after some patience."""
    host = replace(here.host, lease_seconds=0.2)
    here.host = host
    with here.network.meanwhile([Passage()] * 2 + [Passage(fate)]), pytest.raises(StoreUnavailable):
        here.take()
    assert tenure.of(here.host.paths, JOB) is None
    here.take()
    assert tenure.joined(here.host, JOB, here.address)


def test_lease_is_shared_by_all_processes_of_the_host(here: Living) -> None:
    """What one writes is the other's own; the end that the fence watches is not put off by it."""
    taken = here.take()
    before = fence.left(here.host.paths, JOB)
    for _ in range(3):
        held = tenure.joined(here.host, JOB, here.address)
        assert held
        held.renew()
    assert (_record(here).holder, _record(here).epoch) == (taken.holder, taken.epoch)
    assert fence.left(here.host.paths, JOB) <= before


def test_lease_in_another_store_is_not_joined(here: Living) -> None:
    """A job that is saved elsewhere for once has no lease there."""
    here.take()
    assert tenure.joined(here.host, JOB, here.host.own_store) is None
    assert tenure.joined(here.host, JOB, Address("s3://other")) is None


def test_lease_that_is_lost_closes_the_fence(here: Living) -> None:
    """Whoever of this host finds out; the note stays until the job has been ended."""
    taken = here.take()
    here.lose()
    with pytest.raises(LeaseLost, match="host host-b has taken it"):
        tenure.joined(here.host, JOB, here.address)
    assert fence.left(here.host.paths, JOB) <= 0
    assert tenure.of(here.host.paths, JOB) == taken


@pytest.mark.parametrize("ended", [None, 0, 7])
def test_lease_that_is_given_up_is_free_at_once(here: Living, ended: int | None) -> None:
    """With how the job has ended, if it has."""
    here.take()
    tenure.give_up(here.host, JOB, ended=ended)
    assert (_record(here).held, _record(here).ended) == (False, ended)
    assert tenure.of(here.host.paths, JOB) is None
    assert not (here.host.paths.fences / JOB).exists()
    _other(here).acquire()


def test_lease_that_another_host_has_is_not_given_up(here: Living) -> None:
    """This one has nothing to do with it any more."""
    here.take()
    here.lose()
    tenure.give_up(here.host, JOB)
    assert (_record(here).held, _record(here).host) == (True, "host-b")
    assert tenure.of(here.host.paths, JOB) is None


def test_lease_stays_noted_while_the_store_does_not_hear_that_it_is_given_up(here: Living) -> None:
    """It is still this host's, and can be given up later."""
    here.take()
    here.network.cut = True
    with pytest.raises(StoreUnavailable):
        tenure.give_up(here.host, JOB)
    assert tenure.of(here.host.paths, JOB)


def test_name_that_is_a_path_is_none(here: Living) -> None:
    """Notes are files of jobs' names."""
    with pytest.raises(UsageError):
        tenure.of(here.host.paths, "../train")


def test_kept_snapshot_is_sent_under_the_lease_of_its_job(here: Living) -> None:
    """Which runs on here, and has the lease."""
    here.begin(epoch=here.take().epoch)
    first = here.save()
    kept = _keep(here)
    assert here.store.committed(JOB) == [first.snapshot]
    unsent.send(here.host, JOB, here.listener.progress)
    assert here.elsewhere.committed(JOB) == [first.snapshot, kept.snapshot]
    assert _record(here).held
    assert unsent.records(here.host) == []


@pytest.mark.parametrize("saved", [False, True], ids=["first", "later"])
def test_kept_snapshot_is_sent_after_the_job_has_left(here: Living, *, saved: bool) -> None:
    """The lease is taken for that, and released."""
    here.begin(epoch=here.take().epoch)
    if saved:
        here.save()
    kept = _keep(here)
    tenure.give_up(here.host, JOB)
    unsent.send(here.host, JOB, here.listener.progress)
    assert here.elsewhere.committed(JOB)[-1] == kept.snapshot
    assert (_record(here).held, _record(here).epoch) == (False, kept.epoch + 1)
    assert here.elsewhere.find(JOB, None).epoch == kept.epoch + 1


def test_kept_snapshot_that_another_one_has_followed_is_not_sent(here: Living) -> None:
    """The job has gone on since, here."""
    here.begin(epoch=here.take().epoch)
    _keep(here)
    later = here.save()
    with pytest.raises(LeaseLost, match="the job has gone on since"):
        unsent.send(here.host, JOB, here.listener.progress)
    assert here.elsewhere.committed(JOB) == [later.snapshot]
    assert len(unsent.records(here.host)) == 1


def test_kept_snapshot_of_a_job_that_may_run_elsewhere_is_not_sent(here: Living) -> None:
    """Its host has the lease, whether it has stored anything yet or not."""
    here.begin(epoch=here.take().epoch)
    _keep(here)
    tenure.give_up(here.host, JOB)
    other = _other(here)
    other.acquire()
    with pytest.raises(LeaseHeld):
        unsent.send(here.host, JOB, here.listener.progress)
    other.release()
    assert here.elsewhere.committed(JOB) == []


def test_kept_snapshot_counts_although_others_have_tried_to_go_on(here: Living) -> None:
    """Nothing is newer: what they may have done is stored nowhere."""
    here.begin(epoch=here.take().epoch)
    kept = _keep(here)
    tenure.give_up(here.host, JOB)
    for _ in range(2):
        other = _other(here)
        other.acquire()
        other.release()
    unsent.send(here.host, JOB, here.listener.progress)
    assert here.elsewhere.committed(JOB) == [kept.snapshot]
    assert here.elsewhere.find(JOB, None).epoch == 4


def test_history_has_a_snapshot_that_was_sent_late(here: Living) -> None:
    """When it was made: it is what has been done by then that need not be done again."""
    here.begin(epoch=here.take().epoch, care=Care())
    kept = _keep(here)
    unsent.send(here.host, JOB, here.listener.progress)
    (told,) = ledger.events(here.elsewhere, JOB)
    assert (told.kind, told.snapshot, told.at) == ("snapshot", kept.snapshot, kept.created)


@pytest.mark.parametrize("ended", [None, 0])
def test_kept_snapshot_is_none_of_a_job_that_was_begun_anew_or_has_ended(
    here: Living, ended: int | None
) -> None:
    """Its life is over, though the other one has stored nothing."""
    here.begin(epoch=here.take().epoch)
    _keep(here)
    tenure.give_up(here.host, JOB)
    other = _other(here)
    other.acquire()
    if ended is None:
        other.begin_anew()
    other.release(ended=ended)
    with pytest.raises(LeaseLost, match="the job has gone on since on host-b"):
        unsent.send(here.host, JOB, here.listener.progress)
    assert here.elsewhere.committed(JOB) == []


def test_kept_snapshot_of_a_job_without_a_lease_is_sent_without_one(here: Living) -> None:
    """And none is made."""
    here.begin()
    here.save()
    kept = _keep(here)
    unsent.send(here.host, JOB, here.listener.progress)
    assert here.elsewhere.committed(JOB)[-1] == kept.snapshot
    assert lease.read(here.elsewhere, JOB) is None


def test_lease_that_was_lent_is_released_however_it_was_used(here: Living) -> None:
    """Others do not wait for who has failed."""
    here.begin(epoch=here.take().epoch)
    kept = _keep(here)
    tenure.give_up(here.host, JOB)
    with pytest.raises(ZeroDivisionError), tenure.lent(here.host, kept, here.address):
        raise ZeroDivisionError
    assert not _record(here).held


def test_job_that_has_come_to_its_end_is_not_run_again_for_a_kept_snapshot(here: Living) -> None:
    """It was sent late, for whoever wants to see it."""
    here.begin(epoch=here.take().epoch)
    _keep(here)
    tenure.give_up(here.host, JOB, ended=0)
    with suppress(LeaseLost):  # to refuse it would do as well
        unsent.send(here.host, JOB, here.listener.progress)
    assert _record(here).ended == 0


def test_newest_of_several_kept_snapshots_counts_in_the_end(here: Living) -> None:
    """While the store was away, the job was saved more than once."""
    here.begin(epoch=here.take().epoch)
    here.save()
    _keep(here)
    newest = _keep(here)
    with suppress(LeaseLost):
        unsent.send(here.host, JOB, here.listener.progress)
    assert here.elsewhere.find(JOB, None).snapshot == newest.snapshot


def test_snapshot_under_a_lost_lease_leaves_the_job_frozen(here: Living) -> None:
    """One that was to be the last: nothing is committed, and the fence is closed."""
    here.begin(epoch=here.take().epoch)
    here.lose()
    with pytest.raises(LeaseLost):
        here.save(leave_running=False)
    assert here.elsewhere.ids(JOB) == []
    assert fence.left(here.host.paths, JOB) <= 0
    assert here.status == "paused"


def test_snapshot_under_a_lease_that_is_lost_meanwhile_closes_the_fence(here: Living) -> None:
    """Between the look at it and the commit; the manifest that counts for nothing is gone."""
    here.begin(epoch=here.take().epoch)
    push = here.store.begin

    def taken_meanwhile(hold: str, job: str, host: str) -> object:
        found = push(hold, job, host)
        publish = found.publish
        found.publish = lambda *of: (here.lose(), publish(*of))[1]  # type: ignore[method-assign]
        return found

    here.store.begin = taken_meanwhile  # type: ignore[method-assign, assignment]
    with pytest.raises(LeaseLost):
        here.save(leave_running=False)
    assert here.elsewhere.ids(JOB) == []
    assert (fence.left(here.host.paths, JOB) <= 0, here.status) == (True, "paused")


def test_capture_does_not_thaw_what_its_fence_has_stopped(here: Living) -> None:
    """Though it was to leave the job running: another host may have it by now."""
    here.begin(epoch=here.take().epoch)
    dump = here.oci.dump

    def slow(*of: object, **more: object) -> None:
        fence.close(here.host.paths, JOB)
        dump(*of, **more)  # type: ignore[arg-type]

    here.oci.dump = slow  # type: ignore[method-assign]
    here.save()
    assert here.status == "paused"


@pytest.mark.parametrize("kind", Kind)
def test_job_without_a_lease_is_saved_as_ever(here: Living, kind: Kind) -> None:
    """Nothing watches its time."""
    here.begin()
    saved = here.save(kind, leave_running=False)
    assert here.elsewhere.committed(JOB) == [saved.snapshot]
    assert saved.kind is kind
    assert not (here.host.paths.fences / JOB).exists()
