"""A host is about to go: its job is saved as well as there is time for, and let go."""

from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic, sleep
from typing import Final

from spotrun.images import lease
from spotrun.images.errors import LeaseLost, SpotrunError, Unsent
from spotrun.images.manifest import Kind
from spotrun.runtime import capture, fence, forecast, jobs, locks, unsent
from spotrun.runtime.captured import CaptureState
from spotrun.runtime.forecast import Forecast, Plan
from spotrun.runtime.host import Host
from spotrun.runtime.transaction import Observer

_KINDS: Final = {
    Plan.LIVE: (Kind.LIVE, Kind.FILES),
    Plan.FILES: (Kind.FILES,),
    Plan.KEEP: (),
}
"""What is tried, one after the other."""
_SOON: Final = 10.0
"""Seconds within which a store that is to take a last snapshot answers, at most."""
_SHARE: Final = 0.8
"""Of the time that is left, for which the store is waited for: then the snapshot is kept here."""
_LAST: Final = 3.0
"""Seconds before the deadline in which nothing is begun any more."""
_TRIES: Final = 5
_AGAIN: Final = 1.0
"""Seconds before the same is tried again."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A snapshot that its store did not take, and that is on this host."""

    snapshot: str
    kind: Kind


def leave(
    host: Host, job: str, foretold: Forecast, deadline: float, observer: Observer
) -> CaptureState | None:
    """Save and end a running job by that time (`monotonic`), and return its last snapshot.

    None: nothing new could be stored in time, and an earlier snapshot counts, or one that is kept
    here. The job has ended in either case, unless LeaseLost is raised.
    """
    _unpause(host, job)
    trouble, kept = _trouble(host, job, deadline), None
    host = host.hurried(_SHARE * (deadline - monotonic()))
    for kind in (Kind.LIVE, Kind.FILES):
        if kept:  # nothing less is to take its place
            break
        for _ in range(_TRIES):
            if kind not in _KINDS[forecast.choose(foretold, deadline - monotonic())]:
                break
            try:
                state = capture.checkpoint(
                    host,
                    job,
                    leave_running=False,
                    store=None,
                    kind=kind,
                    last=True,
                    trouble=trouble,
                    observer=observer,
                )
            except LeaseLost:
                raise
            except Unsent as error:
                observer.note(str(error))
                kept = Kept(str(error.fields["snapshot"]), kind)
                unsent.drop(host, job, but=kept.snapshot)
                break
            except (SpotrunError, OSError) as error:  # it may pass
                observer.note(str(error))
                sleep(_AGAIN)
            else:
                unsent.drop(host, job)  # this one is newer
                return state
    now = host.clock.now()
    with locks.hold(host.paths.locks, job, "leave", now, wait=True):
        drop(host, job, kept=kept)
    if kept:
        _send(host, job, kept, deadline, observer)
    return None


def _send(host: Host, job: str, kept: Kept, deadline: float, observer: Observer) -> None:
    """Send what is kept here, should its store answer in time; the job has ended."""
    while monotonic() < deadline - _LAST:
        if not _trouble(host, job, deadline):
            try:
                unsent.send(host.hurried(deadline - monotonic()), kept.snapshot, None)
            except SpotrunError as error:
                observer.note(str(error))
            else:
                return
        sleep(_AGAIN)


def _trouble(host: Host, job: str, deadline: float) -> str:
    """Return why the job's store cannot be used, if it does not answer soon."""
    record = jobs.load(host.paths, job)
    host = host.hurried(min(_SOON, (deadline - monotonic()) / 4))
    try:
        if record:
            lease.read(host.store(record.store), job)
    except SpotrunError as error:
        return str(error)
    return ""


def _unpause(host: Host, job: str) -> None:
    """Let a job that its user has paused run on for an instant: what is paused is not captured."""
    host = host.of(job)
    with suppress(SpotrunError):
        found = host.container(job)
        if found and found.status == "paused" and fence.left(host.paths, job) > 0:
            host.engine.command(["unpause", found.id], silent=True)


def drop(host: Host, job: str, *, taker: str | None = None, kept: Kept | None = None) -> None:
    """End a job whose lock is held: its last snapshot counts, on the taker or whatever comes."""
    host = host.of(job)
    record, found = jobs.load(host.paths, job), host.job_container(job)
    if record and kept:
        record = replace(record, parent=kept.snapshot, files_only=kept.kind is Kind.FILES)
    try:
        if record and record.place is jobs.Place.HERE:
            jobs.let_go(host.paths, record, taker)
    finally:
        if found:
            host.engine.remove(found.id)
