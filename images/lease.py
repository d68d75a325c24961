"""Leases: which host may run a job, and which of its snapshots are committed.

A lease is one object, `leases/JOB`, that is written on condition only: who writes it has seen the
last write, so all writes are one sequence. A snapshot of a job that has a lease is committed by the
write that names it. `docs/lease.md` has the protocol and why it is right.
"""

import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from spotrun.images.backends.base import ObjectChanged, ObjectExists, ObjectMissing
from spotrun.images.errors import LeaseHeld, LeaseLost, StoreUnavailable
from spotrun.images.manifest import Manifest
from spotrun.images.seal import Broken, Seal, open_document, seal_document

if TYPE_CHECKING:
    from spotrun.images.store import Store

PREFIX: Final = "leases/"
DURATION: Final = 60.0
"""Seconds, by the holder's clock, for which a lease is valid after a write, by default."""
DRIFT: Final = 0.01
"""How much faster or slower than time a host's clock may go."""


@dataclass(frozen=True, slots=True)
class Record:
    """The content of a lease."""

    epoch: int = 0
    """Grows whenever the lease is taken."""
    holder: str = ""
    """Random: one process that took it."""
    host: str = ""
    """For people: where that is."""
    held: bool = False
    duration: float = DURATION
    """Seconds for which the holder may run the job after a write, by its own clock."""
    beat: str = ""
    """Random, another one with every write."""
    snapshots: tuple[str, ...] | None = None
    """Those that are committed, in that order; None: all that are there."""
    ended: int | None = None
    """Exit code of the job if it has come to its own end; None: it has not, or none was seen."""
    anew: int = 0
    """Epoch in which it last began anew since its user wanted that: it does not go on from what was
    saved before.
    """


Change = Callable[[Record], Record]
Found = tuple[Record, str]
"""A record, and the tag of the object that it was read from."""


def boot_time() -> float:
    """Return seconds since this host was booted, those that it was suspended among them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def read(store: "Store", job: str) -> Record | None:
    """Return the lease of a job; None: it has none."""
    found = _read(store, job)
    return found[0] if found else None


class Lease:
    """The lease of a job as one process wants or holds it; for several threads, once acquired."""

    def __init__(
        self,
        store: "Store",
        job: str,
        *,
        host: str,
        duration: float = DURATION,
        now: Callable[[], float] = boot_time,
    ) -> None:
        """Hold nothing yet; `now` gives seconds and never stands still while the host does."""
        self.holder = secrets.token_hex(16)
        self.epoch = 0
        """Of the time that it was last acquired."""
        self._store = store
        self._job = job
        self._host = host
        self._duration = duration
        self._now = now
        self._seen = ("", 0.0)
        """The last beat of somebody else's, and when it was first seen."""
        self._written: Found = (Record(), "")
        self._valid_until = -math.inf
        self._lost = True

    @property
    def expires_at(self) -> float:
        """When the job must be frozen, by the host's clock; renewing puts it off."""
        return -math.inf if self._lost else self._valid_until

    def acquire(self, *, above: int = 0, dead: str | None = None) -> None:
        """Take the lease, at an epoch higher than `above`; LeaseHeld: ask again in `wait` seconds.

        It is to be had at once if nobody holds it, or `dead` does: a holder of whom the caller
        knows, and answers for it, that it does not run the job. From anybody else it is taken when
        nothing has been written for so long, while this process asked, that they have frozen it.
        """
        while not self._taken(above, dead):
            pass
        record, _ = self._written
        if record.snapshots is None:  # looked for now that others cannot but see the lease
            there = tuple(snapshot for _, snapshot in self._store.ids(self._job))
            self._change(lambda it: replace(it, snapshots=there))
        self._lost = False

    def join(self, holder: str, epoch: int) -> None:
        """Hold it together with a process of this host that has taken it; LeaseLost: it has gone.

        Both are one holder: each goes on from what the other has written.
        """
        self.holder, self.epoch = holder, epoch
        self._written = self._still_ours()
        self._lost = False

    def renew(self) -> None:
        """Put the end off, also after it if nobody has taken the lease; LeaseLost: freeze."""
        self._while_held(lambda it: it)

    def begin_anew(self) -> None:
        """Let nobody go on from a snapshot of an earlier epoch; LeaseLost: they may."""
        self._while_held(lambda it: replace(it, anew=self.epoch))

    def commit(self, manifest: Manifest) -> None:
        """Commit a snapshot of this epoch whose manifest is stored; LeaseLost: it is not.

        Ids of snapshots that have been removed are dropped.
        """
        if manifest.epoch != self.epoch:
            reason = f"snapshot {manifest.snapshot} is of epoch {manifest.epoch}, not {self.epoch}"
            raise LeaseLost(job=self._job, reason=reason)
        there = {it for _, it in self._store.ids(self._job)} - {manifest.snapshot}

        def named(record: Record) -> Record:
            kept = (it for it in record.snapshots or () if it in there)
            return replace(record, snapshots=(*kept, manifest.snapshot))

        self._while_held(named)

    def release(self, *, ended: int | None = None) -> None:
        """Let others take it at once; the job must be frozen, and nothing else be under way.

        Or it has `ended` with that exit code. LeaseLost: they can already, or somebody has.
        """
        self._while_held(lambda it: replace(it, held=False, ended=ended))
        self._lost = True

    def _taken(self, above: int, dead: str | None) -> bool:
        """Take it, or raise LeaseHeld; False: another one was faster, or we were unheard."""
        started = self._now()
        found = _read(self._store, self._job)
        if found is None and self._seen[0]:  # it was there: maybe the store has gone
            self._store.require()
        old = found[0] if found else Record()
        if old.held and old.holder not in {self.holder, dead}:
            self._wait_for(old)
        epoch = max(old.epoch, above) + 1
        mine = replace(old, epoch=epoch, holder=self.holder, host=self._host, held=True)
        mine = replace(mine, duration=self._duration, ended=None)
        try:
            self._write(mine, found[1] if found else None, started)
        except (ObjectExists, ObjectChanged):
            return False
        self.epoch = epoch
        return True

    def _wait_for(self, record: Record) -> None:
        """Return if its holder has frozen the job for sure, or raise LeaseHeld."""
        now = self._now()
        if self._seen[0] != record.beat:
            self._seen = (record.beat, now)
        # Our clock may be the fastest, the holder's the slowest.
        wait = self._seen[1] + record.duration * (1 + DRIFT) / (1 - DRIFT) - now
        if wait > 0:
            raise LeaseHeld(job=self._job, host=record.host, holder=record.holder, wait=wait)

    def _while_held(self, change: Change) -> None:
        if self._lost:
            raise LeaseLost(job=self._job, reason="it has been lost or released, or never held")
        self._change(change)

    def _change(self, change: Change) -> None:
        """Change what was last written, by us."""
        while True:
            record, tag = self._written
            started = self._now()
            try:
                return self._write(change(record), tag, started)
            except ObjectChanged:
                self._written = self._still_ours()

    def _still_ours(self) -> Found:
        """Read our own write that was not acknowledged in time; LeaseLost: it is another's.

        StoreUnavailable: the store itself has gone, which says nothing of the lease.
        """
        found = _read(self._store, self._job)
        if found is None:
            self._store.require()
        elif found[0].held and (found[0].holder, found[0].epoch) == (self.holder, self.epoch):
            return found
        self._lost = True
        taker = f"host {found[0].host} has taken it" if found else "its object has been removed"
        raise LeaseLost(job=self._job, reason=taker)

    def _write(self, record: Record, tag: str | None, started: float) -> None:
        """Write it in the place of what has that tag, or of nothing."""
        beating, key = replace(record, beat=secrets.token_hex(8)), PREFIX + self._job
        backend, seal = self._store.backend, self._store.seal
        sealed = seal_document(seal, key, msgspec.json.encode(beating))
        tag = backend.create(key, sealed) if tag is None else backend.replace(key, sealed, tag)
        self._written = beating, tag
        # The time before the request: nobody can have seen the beat, and waited for us, earlier.
        self._valid_until = max(self._valid_until, started + record.duration)


def refuse_others(store: "Store", job: str) -> None:
    """Raise LeaseLost if the job has a lease: only who holds it publishes."""
    if read(store, job):
        raise LeaseLost(job=job, reason="only who holds it may publish snapshots")


def decode(seal: Seal, key: str, raw: bytes) -> Record:
    """Return what a lease says, or raise Broken."""
    try:
        return msgspec.json.decode(open_document(seal, key, raw), type=Record)
    except msgspec.MsgspecError as error:
        raise Broken(f"{key} makes no sense: {error}") from None


def _read(store: "Store", job: str) -> Found | None:
    key = PREFIX + job
    try:
        raw, tag = store.backend.get_tagged(key)
        return decode(store.seal, key, raw), tag
    except ObjectMissing:
        return None
    except Broken as error:
        unreadable = StoreUnavailable(store=store, reason=f"{key} cannot be read: {error}")
        unreadable.add_note("`spotrun repair` takes it out of the way")
        raise unreadable from error
