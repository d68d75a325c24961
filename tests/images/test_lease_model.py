"""Whatever happens to hosts, clocks and requests: one runs the job, no commit is lost, one goes on.

The machine runs the real code on a store in memory. Time is simulated: hosts' clocks go as slow and
as fast as is allowed. Requests get lost, are done without an answer, or when nobody waits for one
any more; other hosts act while one is on its way, and processes crash at any of them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from spotrun.images import lease as module
from spotrun.images.backends.base import Data
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.errors import LeaseHeld, LeaseLost, StoreUnavailable
from spotrun.images.lease import DRIFT, DURATION, Found, Lease, Record, read
from spotrun.images.store import Store
from tests.fakes.partitions import Crash, Fate, Network, Passage, World
from tests.fakes.snapshots import NOW, manifest
from tests.fakes.stores import plain

Meanwhile = tuple[int, str, float] | None
Passages = list[tuple[Fate, Meanwhile, Meanwhile]]

_JOB = "train"
_TICK = 0.001
_RATES = (1 - 0.99 * DRIFT, 1 + 0.99 * DRIFT, 1.0)
_SKEWS = (0, -500, 9000)
"""Seconds by which the hosts' time of day is wrong."""
_LONGEST = DURATION * (1 + DRIFT) / (1 - DRIFT) ** 2 + 2 * _TICK
_HOSTS = st.integers(0, len(_RATES) - 1)
_PAUSES = st.sampled_from([0.0, 0.5, 5.0, 20.0, 45.0, DURATION, 2.5 * DURATION])
_ACTS = st.sampled_from(["acquire", "renew", "commit"])
_FATES = st.sampled_from([*[Fate.ANSWERED] * 4, *Fate])
_MEANWHILE = st.none() | st.tuples(_HOSTS, _ACTS, _PAUSES)
_PASSAGES: st.SearchStrategy[Passages] = st.just([]) | st.lists(
    st.tuples(_FATES, _MEANWHILE, _MEANWHILE), max_size=4
)


@dataclass(frozen=True)
class Life:
    """The job's life on one host, from one restore on."""

    host: str
    base: str | None
    """The snapshot that it began with."""


class Host:
    """A host that wants the job."""

    def __init__(self, number: int, world: World, kind: type[Lease]) -> None:
        """Boot it."""
        self.name = f"host-{number}"
        self.network = Network(world)
        self.store = plain(self.network)
        self.ask_at = 0.0
        """When the lease may be had, by its own clock."""
        self.rate = _RATES[number]
        self._world = world
        self._number = number
        self._kind = kind
        self.restart()

    def restart(self) -> None:
        """Begin with a new process, and without the job."""
        self.life: Life | None = None
        self.busy = False
        self.lease = self._kind(self.store, _JOB, host=self.name, now=self.now)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Do one thing at a time, beside the heart."""
        self.busy = True
        try:
            yield
        finally:
            self.busy = False

    def now(self) -> float:
        """Read its steady clock."""
        return 1000.0 * self._number + self._world.seconds * self.rate

    def name_of(self, number: int) -> str:
        """Return an id for a snapshot that is made now, by its time of day."""
        made = NOW + timedelta(seconds=self._world.seconds + _SKEWS[self._number])
        return f"{made:%Y%m%dT%H%M%SZ}-{number:06x}"

    @property
    def runs(self) -> bool:
        """Tell whether the job's processes run: they are frozen when the lease ends."""
        return self.life is not None and self.now() < self.lease.expires_at


class Hosts(RuleBasedStateMachine):
    """Hosts that share a store and a job."""

    kind: ClassVar[type[Lease]] = Lease

    def __init__(self) -> None:
        """Boot the hosts; nobody has the job."""
        super().__init__()
        self.world = World()
        self.hosts = [Host(number, self.world, self.kind) for number in range(len(_RATES))]
        self.made: dict[str, tuple[Life, int]] = {}
        """Whose each snapshot is, and the how many-eth of all."""
        self.acknowledged: set[str] = set()
        self.dead: set[str] = set()
        """Holders that run nothing any more."""
        self.lied = False
        """Somebody said of a holder that it were dead."""

    @precondition(lambda self: self.others)
    @rule(number=_HOSTS, passages=_PASSAGES)
    def acquire(self, number: int, passages: Passages) -> None:
        """Ask for the job, and restore its newest snapshot."""
        self._do(_one(self.others, number), self._acquire, passages)

    @precondition(lambda self: self.living)
    @rule(number=_HOSTS, passages=_PASSAGES)
    def renew(self, number: int, passages: Passages) -> None:
        """Let the heart beat."""
        self._do(_one(self.living, number), self._renew, passages)

    @precondition(lambda self: self.living)
    @rule(number=_HOSTS, other=_HOSTS, seconds=_PAUSES, before=st.booleans())
    def renew_slowly(self, number: int, other: int, seconds: float, *, before: bool) -> None:
        """Let the heart beat, while another host asks before its beat arrives, or after it."""
        asks = (other, "acquire", seconds)
        passage = (Fate.ANSWERED, asks if before else None, None if before else asks)
        self._do(_one(self.living, number), self._renew, [passage])

    @precondition(lambda self: self.living)
    @rule(number=_HOSTS, passages=_PASSAGES)
    def commit(self, number: int, passages: Passages) -> None:
        """Save the job; it goes on."""
        self._do(_one(self.living, number), self._commit, passages)

    @precondition(lambda self: self.living)
    @rule(number=_HOSTS, passages=_PASSAGES)
    def release(self, number: int, passages: Passages) -> None:
        """End the job here, and give it up."""
        self._do(_one(self.living, number), self._release, passages)

    @precondition(lambda self: self.others)
    @rule(number=_HOSTS)
    def wait_for_the_lease(self, number: int) -> None:
        """Ask for the job as soon as it may be had, and no moment later."""
        number = _one(self.others, number)
        host = self.hosts[number]
        self._pass(max(host.ask_at - host.now(), 0) / host.rate + _TICK)
        self._do(number, self._acquire, [])

    @rule(seconds=_PAUSES)
    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self._pass(seconds)

    @rule(number=_HOSTS)
    def cut_or_mend(self, number: int) -> None:
        """Cut a host off from the store, or no longer."""
        network = self.hosts[number].network
        network.cut = not network.cut

    @rule(number=_HOSTS)
    def die(self, number: int) -> None:
        """Kill a process, and the job with it."""
        self._die(self.hosts[number])

    @precondition(lambda self: self.world.late)
    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        """Do a request that its sender has given up."""
        self.world.land(data.draw(st.integers(0, len(self.world.late) - 1)))
        self._check()

    @rule(number=_HOSTS, passages=_PASSAGES, lie=st.sampled_from([*[False] * 9, True]))
    def take_over(self, number: int, passages: Passages, *, lie: bool) -> None:
        """Take the job from a dead host by the user's word, which may be wrong."""
        record = read(plain(self.world.store), _JOB)
        holder = record.holder if record and record.held else ""
        if holder in self.dead or (holder and lie):
            self.lied |= holder not in self.dead
            self._do(number, lambda host: self._acquire(host, dead=holder), passages)

    def teardown(self) -> None:
        """Prove that when all others are gone one can go on, with the newest snapshot."""
        while self.world.late:
            self.world.land(0)
        for host in self.hosts:
            self._die(host)
        last, begin = Host(0, self.world, self.kind), self.world.seconds
        newest = self._committed()[-1:]
        for _ in range(2):
            try:
                self._acquire(last)
            except LeaseHeld as held:
                self._pass(held.fields["wait"] / last.rate + _TICK)  # type: ignore[operator]
        assert last.runs, "nobody can go on"
        assert self.world.seconds - begin < _LONGEST
        assert newest == ([last.life.base] if last.life and last.life.base else [])
        self._commit(last)
        assert last.store.find(_JOB, None).snapshot == self._committed()[-1]

    @property
    def living(self) -> list[int]:
        """Those that have the job, or think so."""
        return [number for number, host in enumerate(self.hosts) if host.life]

    @property
    def others(self) -> list[int]:
        """Those that do not have it."""
        return [number for number, host in enumerate(self.hosts) if not host.life]

    def _do(self, number: int, action: Callable[[Host], None], passages: Passages) -> None:
        host = self.hosts[number]
        planned = (
            Passage(fate, lambda it=before: self._visit(it), lambda it=after: self._visit(it))  # type: ignore[misc]
            for fate, before, after in passages
        )
        try:
            with host.network.meanwhile(planned):
                action(host)
        except LeaseHeld as held:
            host.ask_at = host.now() + held.fields["wait"]  # type: ignore[operator]
        except (Crash, LeaseLost):
            self._die(host)
        except StoreUnavailable:
            pass
        self._check()

    def _visit(self, meanwhile: Meanwhile) -> None:
        """Let a host act, maybe in another thread of the one whose request is on its way."""
        if meanwhile:
            number, act, seconds = meanwhile
            acts = {"acquire": self._acquire, "renew": self._renew, "commit": self._commit}
            self._do(number, acts[act], [])
            self._pass(seconds)

    def _acquire(self, host: Host, dead: str | None = None) -> None:
        if host.life or host.busy:
            return
        with host.working():
            host.lease.acquire(dead=dead)
            newest = host.store.committed(_JOB)[-1:]
            host.life = Life(host.name, newest[0] if newest else None)

    def _renew(self, host: Host) -> None:
        if host.life:
            host.lease.renew()

    def _commit(self, host: Host) -> None:
        if host.life and not host.busy:
            number = len(self.made)
            snapshot = host.name_of(number)
            self.made[snapshot] = host.life, number
            with host.working():
                described = manifest(job=_JOB, snapshot=snapshot, epoch=host.lease.epoch)
                host.store.publish(described, host.lease)
            self.acknowledged.add(snapshot)

    def _release(self, host: Host) -> None:
        if not host.life or host.busy:
            return
        host.life = None
        try:
            with host.working():
                host.lease.release()
        finally:
            self._die(host)

    def _die(self, host: Host) -> None:
        self.dead.add(host.lease.holder)
        host.restart()

    def _pass(self, seconds: float) -> None:
        self.world.seconds += seconds

    def _committed(self) -> list[str]:
        return plain(self.world.store).committed(_JOB)

    def _check(self) -> None:
        assert self.lied or sum(host.runs for host in self.hosts) <= 1, "two hosts run the job"
        committed = self._committed()
        assert self.acknowledged <= set(committed), "a snapshot is lost"
        before: str | None = None
        for after in committed:
            life, number = self.made[after]
            if before and self.made[before][0] is life:
                assert self.made[before][1] < number, "a snapshot is in another one's place"
            else:
                assert life.base == before, "a snapshot has another one before it"
            before = after


def _one(numbers: list[int], number: int) -> int:
    return numbers[number % len(numbers)]


def _run(machine: type[Hosts], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            database=None,
            derandomize=True,
            report_multiple_bugs=False,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_one_host_runs_the_job_no_commit_is_lost_and_one_can_go_on() -> None:
    """In some hundred stories."""
    _run(Hosts, 150)


@pytest.mark.slow
def test_so_it_is_in_many_stories() -> None:
    """As before."""
    _run(Hosts, 5000)


class _NeverAfraid(Lease):
    """Takes the lease of whoever was seen so long ago, and may have been heard of since."""

    def _wait_for(self, record: Record) -> None:
        if self._seen[0]:
            self._seen = record.beat, self._seen[1]
        super()._wait_for(record)


class _Late(Lease):
    """Counts from the answer to its request."""

    def _write(self, record: Record, tag: str | None, started: float) -> None:
        super()._write(record, tag, started)
        self._valid_until = max(self._valid_until, self._now() + record.duration)


class _Deaf(Lease):
    """Takes whatever is written for its own."""

    def _still_ours(self) -> Found:
        record, tag = module._read(self._store, self._job) or self._written  # noqa: SLF001
        return replace(record, holder=self.holder), tag


class _Timid(Lease):
    """Begins to wait whenever it asks."""

    def _wait_for(self, record: Record) -> None:
        self._seen = ("", 0.0)
        super()._wait_for(record)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (_NeverAfraid, "two hosts run the job"),
        (_Late, "two hosts run the job"),
        (_Deaf, "two hosts run the job|a snapshot has another one before it"),
        (_Timid, "nobody can go on"),
    ],
)
def test_error_of_the_holder_is_found(kind: type[Lease], wrong: str) -> None:
    """The model is not blind."""
    machine = type("Mutant", (Hosts,), {"kind": kind})
    with pytest.raises(AssertionError, match=wrong):
        _run(machine, 2000)


def _unconditional(backend: MemoryBackend, key: str, data: Data, _tag: str) -> str:
    backend.put(key, data)
    return backend.get_tagged(key)[1]


def _by_presence(store: Store, job: str) -> list[str]:
    return [snapshot for _, snapshot in store.ids(job)]


@pytest.mark.parametrize(
    ("owner", "name", "mutant", "wrong"),
    [
        (module, "DRIFT", 0.0, "two hosts run the job"),
        (MemoryBackend, "replace", _unconditional, "two hosts run the job|a snapshot is lost"),
        (Store, "committed", _by_presence, "a snapshot has another one before it"),
    ],
)
def test_error_of_what_it_builds_upon_is_found(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, mutant: object, wrong: str
) -> None:
    """No margin for clocks, writes without a condition, and snapshots that count by themselves."""
    monkeypatch.setattr(owner, name, mutant)
    with pytest.raises(AssertionError, match=wrong):
        _run(Hosts, 2000)
