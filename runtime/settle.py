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
            now = host.clock.now()
            with locks.hold(host.paths.locks, left.job, "settle", now, wait=False) as lock:
                entry = transaction.entry_of(host, left.job)
                if entry is not None:  # nobody else has settled it in between
                    outcomes.append(_settle(Session(host, lock, observer), entry))
    return outcomes


def _kind(verb: str) -> Transaction[Any]:
    """Look for it only now: nothing is to be settled most times, and to import all takes long."""
    from spotrun.runtime import capture, migrate, restore

    kinds: tuple[Transaction[Any], ...] = (
        capture.STOP, capture.STOP_FILES, capture.LEAVE_RUNNING, restore.RESTORE,
        restore.RESTORE_FILES, migrate.MIGRATE,
    )  # fmt: skip
    return {kind.verb: kind for kind in kinds}[verb]


def _settle(session: Session, entry: transaction.Entry) -> Outcome:
    try:
        finished = transaction.resume(session, _kind(entry.verb), entry)
    except Exception as error:  # noqa: BLE001 # one job's fault must not block the others
        return Outcome(entry.job, entry.verb, finished=False, error=error)
    return Outcome(entry.job, entry.verb, finished)
