"""A host is about to go: its job is saved as well as there is time for, and let go."""

from contextlib import suppress
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
_TRIES: Final = 5
_AGAIN: Final = 1.0
"""Seconds before the same is tried again."""


def leave(
    host: Host, job: str, foretold: Forecast, deadline: float, observer: Observer
) -> CaptureState | None:
    """Save and end a running job by that time (`monotonic`), and return its last snapshot.

    None: nothing new could be stored in time, and an earlier snapshot counts. The job has ended in
    either case, unless LeaseLost is raised.
    """
    _unpause(host, job)
    kept = None
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
                    observer=observer,
                )
            except LeaseLost:
                raise
            except Unsent as error:
                observer.note(str(error))
                kept = str(error.fields["snapshot"])
                unsent.drop(host, job, but=kept)
                if not _answers(host, job, deadline - foretold.files_seconds):
                    break
            except SpotrunError as error:  # it may pass
                observer.note(str(error))
                sleep(_AGAIN)
            else:
                unsent.drop(host, job)  # this one is newer
                return state
    now = host.clock.now()
    with locks.hold(host.paths.locks, job, "leave", now, wait=True):
        drop(host, job)
    return None


def _answers(host: Host, job: str, end: float) -> bool:
    """Wait until the job's store can be reached again; False: not by then."""
    record = jobs.load(host.paths, job)
    while record and monotonic() < end:
        try:
            lease.read(host.store(record.store), job)
        except SpotrunError:
            sleep(_AGAIN)
        else:
            return True
    return False


def _unpause(host: Host, job: str) -> None:
    """Let a job that its user has paused run on for an instant: what is paused is not captured."""
    host = host.of(job)
    with suppress(SpotrunError):
        found = host.container(job)
        if found and found.status == "paused" and fence.left(host.paths, job) > 0:
            host.engine.command(["unpause", found.id], silent=True)


def drop(host: Host, job: str, *, taker: str | None = None) -> None:
    """End a job whose lock is held: its last snapshot counts, on the taker or whatever comes."""
    host = host.of(job)
    record, found = jobs.load(host.paths, job), host.job_container(job)
    if record and record.place is jobs.Place.HERE:
        jobs.let_go(host.paths, record, taker)
    if found:
        host.engine.remove(found.id)
