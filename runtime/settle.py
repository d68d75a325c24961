"""What a killed spotrun left is settled by the next one."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from spotrun.images.errors import JobBusy
from spotrun.runtime import locks, transaction
from spotrun.runtime.host import Host
from spotrun.runtime.transaction import Observer, Session, Transaction


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an unfinished transaction."""

    job: str
    verb: str
    finished: bool
    """Whether it was done to the end; else it was taken back."""
    error: Exception | None = None
    """Why it could be neither; the next spotrun tries again."""


def settle(host: Host, observer: Observer) -> list[Outcome]:
    """Settle all unfinished transactions that nobody works on."""
    outcomes = []
    for left in transaction.entries(host):
        with suppress(JobBusy):
            outcomes.append(settle_job(host, left.job, observer, wait=False))
    return [it for it in outcomes if it]


def settle_job(host: Host, job: str, observer: Observer, *, wait: bool) -> Outcome | None:
    """Settle that of one job, if it has any; JobBusy: one is not to `wait` for who works on it."""
    with locks.hold(host.paths.locks, job, "settle", host.clock.now(), wait=wait) as lock:
        entry = transaction.entry_of(host, job)
        return _settle(Session(host, lock, observer), entry) if entry else None


def _kind(verb: str) -> Transaction[Any]:
    """Look for it only now: nothing is to be settled most times, and to import all takes long."""
    from spotrun.runtime import capture, migrate, restoring

    kinds: tuple[Transaction[Any], ...] = (
        capture.STOP, capture.STOP_FILES, capture.LEAVE_RUNNING, restoring.RESTORE,
        restoring.RESTORE_FILES, migrate.MIGRATE,
    )  # fmt: skip
    return {kind.verb: kind for kind in kinds}[verb]


def _settle(session: Session, entry: transaction.Entry) -> Outcome:
    try:
        finished = transaction.resume(session, _kind(entry.verb), entry)
    except Exception as error:  # noqa: BLE001 # one job's fault must not block the others
        return Outcome(entry.job, entry.verb, finished=False, error=error)
    return Outcome(entry.job, entry.verb, finished)
