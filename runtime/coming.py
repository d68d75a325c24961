"""A job comes back: from its newest snapshot that fits this host, or as near to it as can be.

Rungs, each tried when the ones before have failed: a live snapshot, the newest first; the files of
a snapshot, with the job's command or the one that the user has named for that; the beginning.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from time import monotonic, sleep
from typing import Final

from spotrun.images import lease, ledger
from spotrun.images.address import Address
from spotrun.images.care import Care
from spotrun.images.errors import (
    ExitCode,
    ImageMissing,
    JobBusy,
    LeaseLost,
    NotRestorable,
    RestoreFailed,
    SnapshotDamaged,
    SnapshotNotFound,
    SpotrunError,
    StoreUnavailable,
    UsageError,
)
from spotrun.images.manifest import Kind, Manifest
from spotrun.images.store import Store
from spotrun.runtime import (
    chronicle,
    fence,
    jobs,
    leaving,
    locks,
    restore,
    standing,
    supervising,
    tenure,
    unsent,
)
from spotrun.runtime.host import Host
from spotrun.runtime.restoring import RestoreState
from spotrun.runtime.tenure import HasEnded, Tenure
from spotrun.runtime.transaction import Observer

_PATIENCE: Final = 10.0
"""Seconds in which somebody else on this host brings it up, unless another host has it."""
_STEP: Final = 0.1
_TRIED: Final = 3
"""Snapshots that are tried alive: one that does not fit may be followed by one that does."""
_ALONE: Final = "its supervisor was killed"
_TRIED_AS: Final = {Kind.LIVE: "as it was", Kind.FILES: "with its files alone"}
_NEXT: Final = (NotRestorable, RestoreFailed, SnapshotDamaged)
"""What makes another rung worth a try."""
_NOT_BEGUN: Final = (ExitCode.OWN_ERROR, ExitCode.CANNOT_INVOKE, ExitCode.NOT_FOUND)
"""What `run` ends with if it has started nothing; the last two may be the job's own as well."""
_NO_FAULT: Final = (StoreUnavailable, LeaseLost)
"""What would make all others fail, too, and must not make the job begin anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A job as its user wants it, wherever it is by now."""

    job: str
    store: Address
    care: Care
    fresh: bool = False
    """Begin anew whatever is stored."""
    by_force: bool = False
    """The host that has it is dead, the user says."""


@dataclass(frozen=True, slots=True)
class Came:
    """How the job came to run here."""

    rung: ledger.Rung | None
    """None: it was here, or it has come to its end and does not run."""
    exit_code: int | None = None
    """Of a job that has come to its end, or that began anew and was attached to."""
    snapshot: str | None = None
    since: datetime | None = field(default=None, compare=False)
    """When it began to run here, if it was brought here now."""


def come(host: Host, wish: Wish, begin: Callable[[int], int], observer: Observer) -> Came:
    """Let a job run here and have it looked after; `begin` starts it anew, at an epoch."""
    if not _is_here_soon(host, wish.job):
        try:
            return _brought_up(host, wish, begin, observer)
        except JobBusy:
            if not _is_here_soon(host, wish.job):  # else somebody was faster
                raise
    _refuse_another(host, wish, observer)
    return Came(None)


def _brought_up(host: Host, wish: Wish, begin: Callable[[int], int], observer: Observer) -> Came:
    store = host.store(wish.store, make=not _was_used(host, wish))
    stopped = fence.left(host.paths, wish.job) <= 0
    if stopped:
        _halt(host.of(wish.job), wish.job)
    newest, ours = _newest(store, wish.job), tenure.epoch_here(host, wish.job, wish.store)
    try:
        with supervising.launching(
            host,
            wish.job,
            wish.store,
            above=newest.epoch if newest else 0,
            by_force=wish.by_force,
            unless_ended=not wish.fresh,
            tell=observer.note,
        ) as taken:
            if _is_here(host, wish, taken, ours, thaw=stopped):
                return Came(None)
            _send_kept(host, wish, observer)
            return _Climb(host, wish, store, taken, observer).climb(begin)
    except HasEnded:
        return Came(None, exit_code=ExitCode.OK)


def _was_used(host: Host, wish: Wish) -> bool:
    """Tell whether the job has left something in its store: there must be one, or it is away."""
    record = jobs.load(host.paths, wish.job)
    return record is not None and record.store == wish.store and record.parent is not None


def _is_here_soon(host: Host, job: str) -> bool:
    """Wait for whoever is just bringing it up, and tell whether it is looked after then."""
    end = monotonic() + _PATIENCE
    while not is_looked_after(host, job):
        if not supervising.launched(host.paths, job) or monotonic() > end:
            return False
        sleep(_STEP)
    return True


def is_looked_after(host: Host, job: str) -> bool:
    """Tell whether it has a supervisor here, and processes, and is not about to have others.

    Who has begun it and is its terminal counts as bringing it up to its end; its supervisor has
    said something by then.
    """
    if not supervising.supervised(host.paths, job):
        return False
    record, found = jobs.load(host.paths, job), host.of(job).job_container(job)
    if record is None or record.place is not jobs.Place.HERE or found is None:
        return False
    is_up = not supervising.launched(host.paths, job) or standing.read(host.paths, job) is not None
    return found.running and is_up


def _refuse_another(host: Host, wish: Wish, observer: Observer) -> None:
    """Raise UsageError if the job that runs here is not the one that is wished for."""
    record = jobs.load(host.paths, wish.job)
    runs = f"job {wish.job!r} runs here"
    if record and record.store.url != wish.store.url:
        raise UsageError(message=f"{runs}, and its snapshots go to {record.store.url}")
    if wish.fresh:
        raise UsageError(message=f"{runs}: `spotrun stop {wish.job}` it, to begin it anew")
    if record and record.care != wish.care:
        observer.note(f"{runs} with other options, which it keeps until it comes here again")


def _halt(host: Host, job: str) -> None:
    """Freeze what nobody has frozen whose lease is over: those who look after it were killed."""
    found = host.job_container(job)
    if found and host.oci.status(found.id) == "running":
        host.oci.freeze(found.id)
        fence.mark(host.paths, job)


def _newest(store: Store, job: str) -> Manifest | None:
    try:
        return store.find(job, None)
    except (SnapshotNotFound, SnapshotDamaged):
        return None


def _is_here(host: Host, wish: Wish, taken: Tenure, before: int | None, *, thaw: bool) -> bool:
    """Take on a job that runs here and has lost its supervisor, and thaw it if need be.

    `before` is the epoch that this host had it at, if its lease still said so.
    """
    host, record = host.of(wish.job), jobs.load(host.paths, wish.job)
    found = host.job_container(wish.job) if record and record.place is jobs.Place.HERE else None
    if record is None or found is None or not found.running:
        return False
    last = record.epoch if before is None else before
    if taken.epoch != last + 1:  # another host has had it since: what runs here is past
        with locks.hold(host.paths.locks, wish.job, "run", host.clock.now(), wait=True):
            leaving.drop(host, wish.job)
        return False
    jobs.save(host.paths, replace(record, epoch=taken.epoch, store=wish.store, care=wish.care))
    if thaw:
        host.oci.thaw(found.id)
    chronicle.write(host, wish.job, wish.store, "adopted", epoch=taken.epoch, reason=_ALONE)
    return True


def _send_kept(host: Host, wish: Wish, observer: Observer) -> None:
    """Send what the store could not take before, unless the job has gone on without it."""
    for kept in unsent.records(host):
        if (kept.job, kept.store) == (wish.job, wish.store):
            try:
                unsent.send(host, kept.snapshot, observer.progress)
            except SpotrunError as error:
                observer.note(f"snapshot {kept.snapshot} stays on this host: {error}")


@dataclass(frozen=True, slots=True)
class _Climb:
    """One way up the rungs."""

    host: Host
    wish: Wish
    store: Store
    taken: Tenure
    observer: Observer

    def climb(self, begin: Callable[[int], int]) -> Came:
        """Try one rung after the other; what is no fault of a rung is raised."""
        reasons: list[str] = []
        for kind, snapshot in [] if self.wish.fresh else self._rungs():
            start = self.host.clock.monotonic()
            try:
                manifest = self.store.load(self.wish.job, snapshot)
                since = datetime.fromisoformat(self._restore(manifest, kind).started)
            except _NEXT as error:
                if isinstance(error, ImageMissing) or isinstance(error.__cause__, _NO_FAULT):
                    raise
                reasons.append(f"{kind} from {snapshot}: {error}")
                self.observer.note(f"{_TRIED_AS[kind]}: {error}")
                continue
            seconds = self.host.clock.monotonic() - start
            self._tell("restored", kind.value, reasons, snapshot=snapshot, seconds=seconds)
            return Came(kind.value, snapshot=snapshot, since=since)
        if reasons:
            self.observer.note(
                f"no snapshot of job {self.wish.job!r} can go on here: it begins anew"
            )
        self._make_way()
        if self.wish.fresh:
            tenure.note(self.host.paths, replace(self.taken, fresh=True))
        self._tell("started", "fresh", reasons)
        return Came("fresh", exit_code=self._begun(begin))

    def _begun(self, begin: Callable[[int], int]) -> int:
        """Begin the job; where it could not be started, what was told of that has an end."""
        try:
            code = begin(self.taken.epoch)
        except SpotrunError as error:
            self._tell("ended", None, [f"it could not be started: {error}"])
            raise
        found = self.host.of(self.wish.job).job_container(self.wish.job)
        if code in _NOT_BEGUN and not (found and found.begun):  # with --rm it has gone in any case
            self._tell("ended", None, [f"it could not be started: exit code {code}"])
        return code

    def _rungs(self) -> Iterator[tuple[Kind, str]]:
        """Yield what to try, in this order.

        Who names a command for files alone is served best by the newest, be it without processes.
        """
        record = lease.read(self.store, self.wish.job)
        anew = record.anew if record else 0
        newest = list(islice(self._since(anew), _TRIED))
        if newest and self.wish.care.resume_command and self._kind(newest[0]) is Kind.FILES:
            yield Kind.FILES, newest[0]
        alive = (it for it in self._since(anew) if self._kind(it) is Kind.LIVE)
        yield from ((Kind.LIVE, it) for it in islice(alive, _TRIED))
        yield from ((Kind.FILES, it) for it in newest)

    def _since(self, anew: int) -> Iterator[str]:
        """Yield the committed snapshots of that epoch and later ones, the newest first."""
        for it in self.store.committed(self.wish.job)[::-1]:
            found = self._manifest(it) if anew else None
            if found and found.epoch < anew:
                return
            yield it

    def _kind(self, snapshot: str) -> Kind:
        found = self._manifest(snapshot)
        return found.kind if found else Kind.LIVE

    def _manifest(self, snapshot: str) -> Manifest | None:
        """Return it, or None for one that cannot be read: it is tried, and so told of."""
        with suppress(SnapshotDamaged):
            return self.store.load(self.wish.job, snapshot)
        return None

    def _restore(self, manifest: Manifest, kind: Kind) -> RestoreState:
        return restore.go_on(
            self.host,
            self.wish.job,
            manifest,
            self.wish.store,
            kind=kind,
            care=self.wish.care,
            epoch=self.taken.epoch,
            in_place=True,
            observer=self.observer,
        )

    def _make_way(self) -> None:
        """Remove what an earlier life of the job has left here."""
        host = self.host.of(self.wish.job)
        found = host.engine.find(self.wish.job)
        if found and found.job == self.wish.job and not found.running:
            host.engine.remove(found.id)
        jobs.forget(host.paths, self.wish.job)

    def _tell(
        self, kind: ledger.Kind, rung: str | None, reasons: list[str], **details: object
    ) -> None:
        chronicle.write(
            self.host,
            self.wish.job,
            self.wish.store,
            kind,
            epoch=self.taken.epoch,
            rung=rung,
            reason="; ".join(reasons),
            **details,
        )
