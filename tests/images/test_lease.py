"""One host at a time has a job, and only it commits."""

import re
import time as clock
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from spotrun.images.backends import open_backend
from spotrun.images.backends.base import Backend
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.care import Policy
from spotrun.images.errors import LeaseHeld, LeaseLost, SnapshotNotFound, StoreUnavailable
from spotrun.images.holds import LIFE
from spotrun.images.lease import DURATION, PREFIX, Lease, Record, boot_time, read
from spotrun.images.opening import make_in, open_in
from spotrun.images.prune import prune
from spotrun.images.repair import repair
from spotrun.images.retention import Committed, Reason, judge
from spotrun.images.seal import Keyed, open_document, seal_document
from spotrun.images.store import Store
from spotrun.images.verify import verify
from tests.fakes.partitions import Fate, Network, Passage, World
from tests.fakes.seaweed import Bucket
from tests.fakes.snapshots import NOW, manifest, publish
from tests.fakes.stores import MASTER, STORE, keyed, objects, plain

_JOB = "train"
_KEY = PREFIX + _JOB
_FIRST, _SECOND, _THIRD = (f"20261201T1{hour}0000Z-00000a" for hour in (0, 1, 2))
_PATIENCE = DURATION * 1.01 / 0.99


class _Time:
    """A clock that is set."""

    def __init__(self) -> None:
        self.seconds = 500.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def time() -> _Time:
    """Give the clock of both hosts."""
    return _Time()


@pytest.fixture(params=["memory", "directory", pytest.param("s3", marks=pytest.mark.s3)])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Give an empty backend of each kind."""
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        return open_backend(bucket.url())
    return MemoryBackend() if request.param == "memory" else open_backend(str(tmp_path / "store"))


def _lease(backend: Backend, host: str, time: Callable[[], float]) -> Lease:
    return Lease(plain(backend), _JOB, host=host, now=time)


def _commit(store: Store, held: Lease | None, snapshot: str, epoch: int = 1) -> None:
    store.publish(manifest(job=_JOB, snapshot=snapshot, epoch=epoch), held)


def _refused(lease: Lease, dead: str | None = None) -> float:
    """Return for how long."""
    with pytest.raises(LeaseHeld) as refused:
        lease.acquire(dead=dead)
    wait = refused.value.fields["wait"]
    assert isinstance(wait, float)
    return wait


def test_lease_goes_from_one_to_the_next(backend: Backend, time: _Time) -> None:
    """At once where it was released, and each time with another epoch."""
    first, second = (_lease(backend, f"host-{it}", time) for it in "ab")
    first.acquire()
    assert first.epoch == 1
    assert _refused(second) > DURATION
    first.renew()
    first.release()
    second.acquire()
    assert second.epoch == 2
    with pytest.raises(LeaseLost, match="does not hold the lease of job 'train'"):
        first.renew()
    found = read(plain(backend), _JOB)
    assert found is not None
    assert (found.host, found.holder, found.held) == ("host-b", second.holder, True)


def test_lease_that_vanishes_with_its_store_is_not_taken(backend: Backend, time: _Time) -> None:
    """Who waits for it sees an empty folder where the file system was: its holder runs the job."""
    first, second = (_lease(backend, f"host-{it}", time) for it in "ab")
    first.acquire()
    _refused(second)
    backend.delete([f"{PREFIX}{_JOB}"])
    with pytest.raises(StoreUnavailable, match="has gone"):
        second.acquire()


def test_lease_of_a_silent_host_is_taken(backend: Backend, time: _Time) -> None:
    """When who wants it has waited for longer than a holder with a slow clock would run."""
    first, second = (_lease(backend, f"host-{it}", time) for it in "ab")
    first.acquire()
    time.seconds += 10_000
    assert _refused(second) == pytest.approx(_PATIENCE)
    time.seconds += _PATIENCE - 1
    assert _refused(second) == pytest.approx(1)
    time.seconds += 1.001
    second.acquire()
    with pytest.raises(LeaseLost, match="host host-b has taken it"):
        first.renew()
    assert first.expires_at < time()


def test_each_beat_makes_the_others_wait_again(backend: Backend, time: _Time) -> None:
    """From when they have seen it."""
    first, second = (_lease(backend, f"host-{it}", time) for it in "ab")
    first.acquire()
    _refused(second)
    time.seconds += _PATIENCE - 1
    first.renew()
    time.seconds += 5
    assert _refused(second) == pytest.approx(_PATIENCE)


def test_who_is_known_to_be_dead_is_not_waited_for(backend: Backend, time: _Time) -> None:
    """But nobody else's lease is taken by that word."""
    first, second, third = (_lease(backend, f"host-{it}", time) for it in "abc")
    first.acquire()
    second.acquire(dead=first.holder)
    assert _refused(third, dead=first.holder) > 0
    with pytest.raises(LeaseLost):
        first.renew()


def test_snapshots_are_committed_by_the_lease(backend: Backend, time: _Time) -> None:
    """Those that were there before it stay; the last one that was committed is the newest."""
    store, lease = plain(backend), _lease(backend, "host-a", time)
    _commit(store, None, _SECOND, epoch=3)
    lease.acquire(above=3)
    assert lease.epoch == 4
    assert store.committed(_JOB) == [_SECOND]
    _commit(store, lease, _FIRST, epoch=4)
    assert store.committed(_JOB) == [_SECOND, _FIRST]
    assert store.find(_JOB, None).snapshot == _FIRST
    assert store.has(_JOB, _SECOND)
    store.remove(_JOB, _FIRST)
    assert store.find(_JOB, None).snapshot == _SECOND
    _commit(store, lease, _THIRD, epoch=4)
    found = read(store, _JOB)
    assert found is not None
    assert found.snapshots == (_SECOND, _THIRD)


def test_host_that_has_lost_the_lease_publishes_nothing(backend: Backend, time: _Time) -> None:
    """What it has put there is gone."""
    store = plain(backend)
    first, second = (_lease(backend, f"host-{it}", time) for it in "ab")
    first.acquire()
    _commit(store, first, _FIRST)
    second.acquire(dead=first.holder)
    with pytest.raises(LeaseLost):
        _commit(store, first, _SECOND)
    assert [it for _, it in store.ids(_JOB)] == store.committed(_JOB) == [_FIRST]


def test_lease_of_an_encrypted_store_is_secret(time: _Time) -> None:
    """Nobody but who has the key can read who has the job."""
    store = keyed()
    Lease(store, _JOB, host="host-a", now=time).acquire()
    assert b"host-a" not in store.backend.get(_KEY)
    assert _refused(Lease(store, _JOB, host="host-b", now=time)) > 0


def test_end_counts_from_before_the_request(time: _Time) -> None:
    """And is put off by every write that is acknowledged."""
    network = Network(World())
    lease = _lease(network, "host-a", time)
    assert lease.expires_at < time()
    lease.acquire()
    assert lease.expires_at == time() + DURATION
    time.seconds += 10

    def slow() -> None:
        time.seconds += 7

    with network.meanwhile([Passage(before=slow, after=slow)]):
        lease.renew()
    assert lease.expires_at == time() - 14 + DURATION
    before = lease.expires_at
    with network.meanwhile([Passage(Fate.UNHEARD)]), pytest.raises(StoreUnavailable):
        lease.renew()
    assert lease.expires_at == before
    time.seconds += 10 * DURATION
    lease.renew()
    assert lease.expires_at == time() + DURATION
    lease.release()
    assert lease.expires_at < time()


@pytest.mark.parametrize("fate", [Fate.UNHEARD, Fate.LATE])
def test_write_that_was_not_acknowledged_is_known_again(time: _Time, fate: Fate) -> None:
    """By whose it is, whatever it was."""
    world = World()
    network = Network(world)
    lease = _lease(network, "host-a", time)

    def unheard(act: Callable[[], object], requests: int) -> None:
        passages = [*[Passage()] * (requests - 1), Passage(fate)]
        with network.meanwhile(passages), pytest.raises(StoreUnavailable):
            act()
        while world.late:
            world.land(0)

    unheard(lease.acquire, 2)
    lease.acquire()
    assert lease.epoch == 2
    unheard(lease.renew, 1)
    lease.renew()
    unheard(lambda: _commit(plain(network), lease, _FIRST, epoch=2), 3)
    assert plain(network).committed(_JOB) == [_FIRST]
    lease.renew()
    unheard(lease.release, 1)
    _lease(network, "host-b", time).acquire()


def test_two_that_ask_at_once_do_not_both_get_it(time: _Time) -> None:
    """Whether there is a lease already or not."""
    for held_before in (False, True):
        world = World()
        if held_before:
            lease = _lease(world.store, "host", time)
            lease.acquire()
            lease.release()
        network = Network(world)
        first, second = _lease(network, "host-a", time), _lease(world.store, "host-b", time)
        with network.meanwhile([Passage(after=second.acquire)]):
            assert _refused(first) > 0
        second.renew()


def test_who_publishes_without_the_lease_is_refused(time: _Time) -> None:
    """Even if nobody holds it: such a snapshot would be nobody's newest."""
    store = plain()
    lease = Lease(store, _JOB, host="host-a", now=time)
    lease.acquire()
    lease.release()
    for held in (None, lease):
        with pytest.raises(LeaseLost):
            _commit(store, held, _FIRST)
    assert store.ids() == []
    with pytest.raises(SnapshotNotFound):
        store.find(_JOB, None)
    store.publish(manifest(job="other"))


def test_snapshot_of_an_earlier_epoch_is_refused(time: _Time) -> None:
    """Others may have run the job since it was made."""
    store = plain()
    lease = Lease(store, _JOB, host="host-a", now=time)
    lease.acquire()
    lease.acquire()
    with pytest.raises(LeaseLost, match="is of epoch 1, not 2"):
        _commit(store, lease, _FIRST, epoch=1)


def test_publishing_can_be_tried_again(time: _Time) -> None:
    """Where the manifest is there, and was not committed; not where it was."""
    network = Network(World())
    store, lease = plain(network), _lease(network, "host-a", time)
    lease.acquire()
    passages = [Passage(), Passage(), Passage(Fate.LOST)]
    with network.meanwhile(passages), pytest.raises(StoreUnavailable, match="be reached"):
        _commit(store, lease, _FIRST)
    assert (store.ids(_JOB), store.has(_JOB, _FIRST)) == ([(_JOB, _FIRST)], False)
    _commit(store, lease, _FIRST)
    assert store.has(_JOB, _FIRST)
    with pytest.raises(StoreUnavailable, match="already"):
        _commit(store, lease, _FIRST)


def test_publisher_without_a_lease_and_who_makes_it_see_each_other(time: _Time) -> None:
    """Whoever of them is the first: the snapshot is committed, or its publisher is told."""
    for request in range(3):
        world = World()
        network = Network(world)
        lease = _lease(world.store, "host-a", time)
        passages = [*[Passage()] * request, Passage(before=lease.acquire)]
        told = False
        with network.meanwhile(passages):
            try:
                _commit(plain(network), None, _FIRST)
            except LeaseLost:
                told = True
        lease = lease if lease.epoch else _lease(world.store, "host-b", time)
        lease.acquire()
        assert plain(world.store).committed(_JOB) == ([] if told else [_FIRST])


def _made() -> Store:
    backend = MemoryBackend()
    make_in(backend, None)
    return open_in(backend, None)


@pytest.mark.parametrize("another", [False, True])
def test_lease_is_not_lost_with_its_store(time: _Time, *, another: bool) -> None:
    """An unmounted one says nothing of it; when it is back, all goes on."""
    store = _made()
    lease = Lease(store, _JOB, host="host-a", now=time)
    lease.acquire()
    there = objects(store)
    store.backend.delete(there)
    if another:
        make_in(store.backend, None)
    with pytest.raises(StoreUnavailable, match="another store" if another else "has gone"):
        lease.renew()
    for key, content in there.items():
        store.backend.put(key, content)
    time.seconds += 2 * DURATION
    lease.renew()
    assert lease.expires_at > time.seconds


def test_lease_that_cannot_be_read_is_found_and_set_aside(time: _Time) -> None:
    """Who holds it freezes; then it can be taken again."""
    store = _made()
    lease = Lease(store, _JOB, host="host-a", now=time)
    lease.acquire()
    found = verify(store, read_data=True)
    assert (found.findings, found.unneeded) == ((), 0)
    for broken in (b"nothing that makes sense", seal_document(store.seal, _KEY, b'{"epoch": "x"}')):
        store.backend.put(_KEY, broken)
        with pytest.raises(StoreUnavailable, match="leases/train cannot be read"):
            Lease(store, _JOB, host="host-b", now=time).acquire()
        with pytest.raises(StoreUnavailable, match="leases/train cannot be read"):
            lease.renew()
        assert [it.key for it in verify(store, read_data=False).findings] == [_KEY]
        done = repair(store, host="host", read_data=False, apply=True)
        assert (done.set_aside, done.left) == ((_KEY,), ())
        with pytest.raises(LeaseLost, match="its object has been removed"):
            lease.renew()
        lease = Lease(store, _JOB, host="host-b", now=time)
        lease.acquire(above=7)
        assert lease.epoch == 8


def test_prune_keeps_the_newest_that_is_committed(time: _Time) -> None:
    """And for a day what may be about to be; those do not count for the policy."""
    store = plain()
    lease = Lease(store, _JOB, host="host-a", now=time)
    lease.acquire()
    _commit(store, lease, _FIRST)
    _commit(store, lease, _SECOND)
    publish(plain(other := MemoryBackend()), job=_JOB, snapshot=_THIRD)
    key = f"snapshots/{_JOB}/{_THIRD}"
    store.backend.put(
        key, seal_document(store.seal, key, open_document(store.seal, key, other.get(key)))
    )
    kept = prune(store, Policy(last=1), host="host").snapshots
    assert {it.snapshot: it.reasons for it in kept} == {
        _FIRST: (),
        _SECOND: (Reason.NEWEST, Reason.LAST),
        _THIRD: (Reason.PENDING,),
    }
    assert store.committed(_JOB) == [_SECOND]


@pytest.mark.parametrize(("age", "kept"), [(LIFE / 2, True), (LIFE, False)])
def test_what_was_never_committed_goes_after_a_day(age: timedelta, *, kept: bool) -> None:
    """Also where there is nothing else of the job."""
    found = [Committed(_JOB, _FIRST, NOW)]
    names = {(_JOB, _FIRST)}
    (verdict,) = judge(found, Policy(last=1), now=NOW + age, uncommitted=names)
    assert verdict.reasons == ((Reason.PENDING,) if kept else ())
    (verdict,) = judge(found, Policy(), now=NOW + age, uncommitted=names)
    assert verdict.reasons == (Reason.NO_RULE,)


def test_two_processes_of_a_host_are_one_holder(backend: Backend, time: _Time) -> None:
    """Each goes on from what the other has written, and both lose it at once."""
    first, other = _lease(backend, "host-a", time), _lease(backend, "host-a", time)
    first.acquire()
    other.join(first.holder, first.epoch)
    store = plain(backend)
    _commit(store, other, _FIRST)
    first.renew()
    _commit(store, first, _SECOND)
    other.renew()
    assert store.committed(_JOB) == [_FIRST, _SECOND]
    taker = _lease(backend, "host-b", time)
    taker.acquire(dead=first.holder)
    for lease in (first, other):
        with pytest.raises(LeaseLost, match="host-b has taken it"):
            lease.renew()
    with pytest.raises(LeaseLost):
        other.join(first.holder, first.epoch)


def test_who_has_joined_runs_the_job_only_after_a_write_of_its_own(time: _Time) -> None:
    """What the other one was told counts for that one."""
    backend = MemoryBackend()
    first, other = _lease(backend, "host-a", time), _lease(backend, "host-a", time)
    first.acquire()
    other.join(first.holder, first.epoch)
    assert other.expires_at < time()
    other.renew()
    assert other.expires_at == time() + DURATION


def test_end_of_a_job_is_known_until_it_is_taken_up_again(backend: Backend, time: _Time) -> None:
    """So nobody goes on with what is done."""
    lease, store = _lease(backend, "host-a", time), plain(backend)
    lease.acquire()
    lease.release(ended=0)
    found = read(store, _JOB)
    assert found is not None
    assert (found.held, found.ended) == (False, 0)
    _lease(backend, "host-b", time).acquire()
    again = read(store, _JOB)
    assert again is not None
    assert again.ended is None


def test_duration_is_the_holder_s(time: _Time) -> None:
    """It stands in the lease, for all who wait."""
    backend = MemoryBackend()
    Lease(plain(backend), _JOB, host="host-a", duration=10, now=time).acquire()
    assert _refused(_lease(backend, "host-b", time)) == pytest.approx(10 * 1.01 / 0.99)


def test_lease_is_a_document_as_the_format_says() -> None:
    """With the fields of the page."""
    store = Store(MemoryBackend(), Keyed(STORE, MASTER))
    Lease(store, _JOB, host="host-a").acquire()
    found = msgspec.json.decode(open_document(store.seal, _KEY, store.backend.get(_KEY)))
    page = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
    section = page.partition("A **lease** is")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(found)
    assert found.keys() == set(Record.__slots__)


def test_clock_counts_what_the_host_was_suspended() -> None:
    """The steady clock of most programs does not."""
    before = clock.clock_gettime(clock.CLOCK_BOOTTIME)
    assert before <= boot_time() <= clock.clock_gettime(clock.CLOCK_BOOTTIME)
