"""The ledger: what has happened to a job, in its store, for its user to see.

Each event is an object of its own, `history/JOB/EVENT`, that is written once and never changed;
nobody's right to run or commit anything depends on it. Names sort by the writers' clocks, so
what is read is put in the order of epochs first. `docs/format.md` has the bytes.
"""

import secrets
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from spotrun.images.backends.base import ObjectMissing
from spotrun.images.seal import Broken, Seal, open_document, seal_document

if TYPE_CHECKING:
    from spotrun.images.store import Store

PREFIX: Final = "history/"
_NAME: Final = "%Y%m%dT%H%M%S.%fZ"
_READERS: Final = 16
_HOUR: Final = 3600

Kind = Literal[
    "started", "restored", "adopted", "notice", "frozen", "snapshot", "stopped", "lost", "ended"
]  # fmt: skip
"""In the order in which they happen, should the clock not tell."""
Rung = Literal["live", "files", "fresh"]
_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_STARTS: Final = {"started", "restored"}
_ENDS: Final = {"stopped", "lost", "ended"}
_HELD_UP: Final = {"snapshot", "frozen"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that has happened to a job.

    started: it runs from its beginning. restored: it goes on, or is started again from files.
    adopted: it ran on while nobody looked after it, and is looked after again.
    notice: this host will go. frozen: it was, for want of the lease, and has been thawed.
    snapshot: one was committed. stopped: this host has let it go, to go on elsewhere.
    lost: another host has it, or its end was not seen. ended: by itself, or by its user.
    """

    at: str
    """UTC, ISO 8601, by the clock of who writes it."""
    host: str
    epoch: int
    kind: Kind
    snapshot: str | None = None
    """The one that was committed, or that it goes on from, or is to go on from."""
    rung: Rung | None = None
    """Of what has been restored."""
    reason: str = ""
    """For people: why, or why nothing better."""
    seconds: float = 0.0
    """How long it took, `at` being its end."""
    frozen_seconds: float = 0.0
    """For how long no process of the job ran."""
    bytes: int = 0
    """Bytes that were sent to the store, or read from it."""
    deadline: float | None = None
    """Seconds that a notice left."""


@dataclass(frozen=True, slots=True)
class History:
    """What there is to be known of a job."""

    events: tuple[Event, ...]
    unreadable: int
    """So many more that cannot be read: damaged, or of a later spotrun."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What the events of a job come to.

    A run is from `started` or `restored` to the last event before the next of these: what a host
    did after it was last heard of does not count. Spans are of one host's clock each.
    """

    hosts: tuple[str, ...]
    """Each once, in the order in which the job came to them."""
    runs: int
    interruptions: int
    """Runs that were stopped or lost, or of which nothing more was heard before the next one."""
    notices: int
    snapshots: int
    bytes: int
    """That snapshots have sent to the store."""
    frozen: float
    """Seconds in which the job was held up, for snapshots or for want of the lease."""
    ran: float
    """Seconds of all runs."""
    saved: float
    """Seconds of work that a restart from scratch, not the last restore, would have lost.

    It is what the job had done when the snapshot was begun that its last run went on from, live:
    the seconds of all runs that had led there, without those frozen. 0: it was not live, or the
    history has no such snapshot.
    """

    @property
    def mtbf(self) -> float | None:
        """Return the mean seconds between interruptions; None: there were none."""
        return self.ran / self.interruptions if self.interruptions else None

    def cost(self, per_hour: float) -> "Cost":
        """Return what that is in money, at so much for an hour of a host."""
        paid, spared = (per_hour * seconds / _HOUR for seconds in (self.ran, self.saved))
        return Cost(per_hour, paid, spared)


@dataclass(frozen=True, slots=True)
class Cost:
    """What the hours of a job come to, in the currency of their price."""

    per_hour: float
    paid: float
    """For the hours of all runs; what hosts cost before, between and after them is not known."""
    spared: float
    """For the hours of work that were not to be paid again (`Summary.saved`)."""


def record(store: "Store", job: str, event: Event) -> None:
    """Add an event; StoreUnavailable and its like are no reason to hold the job up."""
    key = f"{PREFIX}{job}/{instant(event):{_NAME}}-{secrets.token_hex(8)}"
    store.backend.create(key, seal_document(store.seal, key, msgspec.json.encode(event)))


def read(store: "Store", job: str, newest: int = 0) -> History:
    """Return what has happened to a job, the latest last; of `newest` > 0, only so many."""

    def one(key: str) -> Event | Broken | None:
        try:
            return decode(store.seal, key, store.backend.get(key))
        except ObjectMissing:  # the job has been removed meanwhile
            return None
        except Broken as error:
            return error

    keys = [entry.key for entry in store.backend.list(f"{PREFIX}{job}/")][-newest:]
    with ThreadPoolExecutor(_READERS) as pool:
        found = list(pool.map(one, keys))
    told = sorted((it for it in found if isinstance(it, Event)), key=_order)
    return History(tuple(told), sum(isinstance(it, Broken) for it in found))


def events(store: "Store", job: str) -> list[Event]:
    """Return what can be read of it."""
    return list(read(store, job).events)


def jobs(store: "Store") -> list[str]:
    """Return the names of all jobs that have a history, sorted."""
    return sorted({entry.key.split("/")[1] for entry in store.backend.list(PREFIX)})


def lately(store: "Store") -> list[str]:
    """Return the same names, those first of which something was written last."""
    keys = (entry.key.removeprefix(PREFIX) for entry in store.backend.list(PREFIX))
    last = dict(key.partition("/")[::2] for key in keys)
    return sorted(last, key=lambda job: last[job], reverse=True)


def forget(store: "Store", job: str) -> None:
    """Remove the history of a job that is removed as a whole."""
    store.backend.delete([entry.key for entry in store.backend.list(f"{PREFIX}{job}/")])


def decode(seal: Seal, key: str, raw: bytes) -> Event:
    """Return what an event says, or raise Broken."""
    try:
        event = msgspec.json.decode(open_document(seal, key, raw), type=Event)
        instant(event)
    except (ValueError, OverflowError) as error:
        raise Broken(f"{key} makes no sense: {error}") from None
    return event


def summarise(events: Iterable[Event]) -> Summary:
    """Return what the events of one job come to."""
    found = sorted(events, key=_order)
    taken = [it for it in found if it.kind == "snapshot"]
    done = runs(found)
    return Summary(
        hosts=tuple(dict.fromkeys(it.host for it in found)),
        runs=len(done),
        interruptions=sum(
            it.over in {"stopped", "lost"} or (not it.over and it is not done[-1]) for it in done
        ),
        notices=sum(it.kind == "notice" for it in found),
        snapshots=len(taken),
        bytes=sum(it.bytes for it in taken),
        frozen=sum(it.frozen_seconds for it in found if it.kind in _HELD_UP),
        ran=sum(it.length for it in done),
        saved=done[-1].carried if done else 0.0,
    )


@dataclass(slots=True)
class Run:
    """A job on one host, from its start there."""

    begin: datetime
    carried: float = 0.0
    """Seconds of work that it began with."""
    length: float = 0.0
    frozen: float = 0.0
    over: Kind | None = None
    """What has ended it."""
    events: list[Event] = field(default_factory=list)
    """All before the next run, in order."""

    def work(self, until: float) -> float:
        """Return the seconds of work that were done so many seconds after the begin."""
        return self.carried + max(0.0, min(until, self.length) - self.frozen)


def runs(events: Iterable[Event]) -> list[Run]:
    """Return the runs that the events of one job tell of, each with its events."""
    found: list[Run] = []
    work: dict[str | None, float] = {}
    """Seconds of it that were done when a snapshot was begun."""
    for it in sorted(events, key=_order):
        at = instant(it)
        if it.kind in _STARTS or not found:
            found.append(Run(at, work.get(it.snapshot, 0.0) if it.rung == "live" else 0.0))
        run = found[-1]
        run.events.append(it)
        since = (at - run.begin).total_seconds()
        if not run.over:
            run.length = max(run.length, since)
            run.over = it.kind if it.kind in _ENDS else None
        if it.kind == "snapshot":
            work[it.snapshot] = run.work(since - it.seconds)
        if it.kind in _HELD_UP:
            run.frozen += it.frozen_seconds
    return found


def _order(event: Event) -> tuple[int, datetime, int]:
    return event.epoch, instant(event), _KINDS.index(event.kind)


def instant(event: Event) -> datetime:
    """Return when it happened, in UTC; ValueError or OverflowError: it does not say."""
    at = datetime.fromisoformat(event.at)
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
