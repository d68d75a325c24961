"""Lists of phases that are done whole or taken back, also when this process is killed.

Before a phase begins, the journal says so on disk, with everything that taking it back needs. One
that leaves nothing to take back is not worth the wait for the disk, until the committing phase.
A phase that fails, or an interrupt, takes back all phases begun, last first. What a killed
process left is settled by the next spotrun on this host (`settle`): taken back, or, once the
committing phase is through, done to the end.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from spotrun.images.durable import sync_directory, write_atomic
from spotrun.images.errors import (
    Failed,
    LeaseLost,
    Refused,
    SpotrunError,
    StateDamaged,
    Unfinished,
    Unsettled,
)
from spotrun.images.manifest import PhaseRecord
from spotrun.images.meter import Progress
from spotrun.runtime import kept
from spotrun.runtime.host import Host
from spotrun.runtime.locks import JobLock


@dataclass(slots=True, kw_only=True)
class State:
    """What the phases of one transaction know; all of it is in the journal."""

    job: str
    engine: str = "podman"
    records: list[PhaseRecord] = field(default_factory=list)
    """Phases that are done."""


S_contra = TypeVar("S_contra", bound=State, contravariant=True)
S = TypeVar("S", bound=State)


class Observer(Protocol):
    """Is told how a transaction gets on."""

    def begin(self, phase: str) -> None:
        """Take note that a phase begins."""
        ...

    def progress(self, progress: Progress) -> None:
        """Take note how far the phase has come; from any thread."""
        ...

    def end(self, record: PhaseRecord) -> None:
        """Take note that a phase is done."""
        ...

    def note(self, text: str) -> None:
        """Take note of what the user should know."""
        ...


@dataclass(frozen=True, slots=True)
class Session:
    """What phases work with."""

    host: Host
    lock: JobLock
    observer: Observer


class Act(Protocol[S_contra]):
    """What a phase does: it may change the state, and returns the bytes it moved, if any."""

    def __call__(self, session: Session, state: S_contra, /) -> int | None:
        """Do it, or raise."""
        ...


@dataclass(frozen=True, slots=True)
class Phase(Generic[S_contra]):
    """One step, with how to take it back."""

    name: str
    do: Act[S_contra]
    undo: Callable[[Session, S_contra], None] | None = None
    """May be called when `do` was cut off anywhere, and more than once."""


@dataclass(frozen=True, slots=True)
class Transaction(Generic[S]):
    """A list of phases, one of which decides."""

    verb: str
    state: type[S]
    phases: Sequence[Phase[S]]
    commit: str
    """Name of the phase after which there is no way back."""
    committed: Callable[[Session, S], bool]
    """Tells, after a crash in the committing phase, whether it took effect."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The journal of one unfinished transaction."""

    verb: str
    job: str
    phase: str
    """The phase that was begun last."""
    state: msgspec.Raw


@contextmanager
def failing_as(failure: Callable[[Exception], Failed]) -> Iterator[None]:
    """Turn what went wrong inside into one error; one that says enough is passed on."""
    try:
        yield
    except (Refused, Failed, LeaseLost, Unfinished):
        raise
    except (SpotrunError, OSError) as error:
        told = failure(error)
        told.__notes__ = getattr(error, "__notes__", [])
        raise told from error


def run(session: Session, transaction: Transaction[S], state: S) -> None:
    """Do all phases, or raise with all of them taken back."""
    left = entry_of(session.host, state.job)
    if left is not None:  # its journal is all that can set the job right
        raise Unsettled(job=state.job, verb=left.verb)
    commit = _index(transaction, transaction.commit)
    try:
        for phase in transaction.phases[:commit]:
            _do(session, transaction, phase, state, noted=phase.undo is not None)
        _do(session, transaction, transaction.phases[commit], state)
    except BaseException as error:
        at = len(state.records)
        if at < commit or not transaction.committed(session, state):
            failures = _take_back(session, transaction.phases[: at + 1], state)
            for failure in failures:
                error.add_note(f"taking it back: {failure}; the next spotrun tries again")
            if not failures:
                _forget(session.host, state.job)
            raise
    for phase in transaction.phases[commit + 1 :]:
        try:
            _do(session, transaction, phase, state)
        except (SpotrunError, OSError) as error:
            raise Unfinished(
                verb=transaction.verb, job=state.job, phase=phase.name, reason=error
            ) from error
    _forget(session.host, state.job)


def resume(session: Session, transaction: Transaction[S], entry: Entry) -> bool:
    """Settle what a dead process left; return whether it was done to the end."""
    state = msgspec.json.decode(entry.state, type=transaction.state)
    session = replace(session, host=session.host.on(state.engine))
    at, commit = _index(transaction, entry.phase), _index(transaction, transaction.commit)
    forward = at > commit or (at == commit and transaction.committed(session, state))
    if forward:
        for phase in transaction.phases[max(at, commit + 1) :]:
            _do(session, transaction, phase, state)
    elif failures := _take_back(session, transaction.phases[: at + 1], state):
        raise failures[0]
    _forget(session.host, state.job)
    return forward


def entries(host: Host) -> list[Entry]:
    """Return the journals of all unfinished transactions of this host that can be read."""
    found: list[Entry] = []
    for path in sorted(host.paths.journal.glob("[!.]*.json")):
        with suppress(StateDamaged):  # its own job is told
            entry = kept.read(path, Entry)
            found += [entry] if entry else []
    return found


def entry_of(host: Host, job: str) -> Entry | None:
    """Return the journal of a job's unfinished transaction, if there is one, or StateDamaged."""
    return kept.read(_journal(host, job), Entry)


def _index(transaction: Transaction[S], name: str) -> int:
    return [phase.name for phase in transaction.phases].index(name)


def _do(
    session: Session,
    transaction: Transaction[S],
    phase: Phase[S],
    state: S,
    *,
    noted: bool = True,
) -> None:
    clock = session.host.clock
    if noted:
        _write(session.host, transaction, phase, state)
    session.observer.begin(phase.name)
    start = clock.monotonic()
    moved = phase.do(session, state)
    record = PhaseRecord(phase.name, round(clock.monotonic() - start, 4), moved or 0)
    state.records.append(record)
    session.observer.end(record)


def _take_back(session: Session, phases: Sequence[Phase[S]], state: S) -> list[Exception]:
    """Undo the phases, last first, all of them even if some fail; return the failures."""
    failures: list[Exception] = []
    for phase in reversed(phases):
        try:
            if phase.undo is not None:
                phase.undo(session, state)
        except Exception as error:  # noqa: BLE001 # the other phases are still to be undone
            failures.append(error)
    return failures


def _write(host: Host, transaction: Transaction[S], phase: Phase[S], state: S) -> None:
    raw = msgspec.Raw(msgspec.json.encode(state))
    entry = Entry(transaction.verb, state.job, phase.name, raw)
    write_atomic(_journal(host, state.job), msgspec.json.encode(entry))


def _forget(host: Host, job: str) -> None:
    _journal(host, job).unlink(missing_ok=True)
    sync_directory(host.paths.journal)


def _journal(host: Host, job: str) -> Path:
    return host.paths.journal / f"{job}.json"
