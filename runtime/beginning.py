"""What becomes of a job that somebody is about to bring up here: it runs, or it may no more."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import sleep
from typing import Final

from spotrun.images.care import Care
from spotrun.images.errors import EngineError, LeaseLost, SpotrunError, StoreUnavailable
from spotrun.images.lease import Lease
from spotrun.runtime import jobs, settle, supervising, tenure
from spotrun.runtime.host import Host
from spotrun.runtime.tenure import Tenure
from spotrun.runtime.transaction import Observer

_STEP: Final = 0.2
_SILENT: Final = 2.0
"""Seconds before an engine that did not answer is asked again."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The time between a lease that is taken and a job that runs."""

    host: Host
    tenure: Tenure
    observer: Observer
    unless: Callable[[], bool]
    """Tells whether the lease is lost meanwhile: then there is nothing to wait for."""

    def awaited(self) -> Care | None:
        """Wait until the job runs, or has run; None: nobody is about to bring it up any more."""
        job = self.tenure.job
        while not self.unless():
            launched = supervising.launched(self.host.paths, job)
            record = jobs.load(self.host.paths, job)
            try:
                found = self.host.of(job).job_container(job) if record else None
            except EngineError as error:  # it tells nothing of the job
                self.observer.note(str(error))
                sleep(_SILENT)
                continue
            mine = record is not None and record.epoch == self.tenure.epoch
            if record and found and mine and (found.running or (found.begun and not launched)):
                return record.care or Care()
            if not launched and not self._cleared_up():
                return self._of_one_that_has_gone(record)
            sleep(_STEP)
        return Care()

    def _of_one_that_has_gone(self, record: jobs.Job | None) -> Care | None:
        """Look whether it has come to its end already, and gone with --rm."""
        mine = record is not None and record.epoch == self.tenure.epoch
        if record and mine and tenure.last_exit(self.host, record.name) is not None:
            return record.care or Care()
        return None

    def _cleared_up(self) -> bool:
        """Settle what was begun by who was to bring the job up, and was killed; False: nothing was.

        Their engine goes on without them: what it still starts must not run without the lease.
        """
        try:
            outcome = settle.settle_job(self.host, self.tenure.job, self.observer, wait=True)
            error = outcome.error if outcome else None
        except SpotrunError as damaged:  # a journal that tells nothing: it is for its user to see
            outcome, error = None, damaged
        if error:
            self.observer.note(str(error))
            sleep(_SILENT)
        return outcome is not None or error is not None

    def note_if_anew(self, held: Lease) -> None:
        """Note in the lease that the job has begun anew, if its user wanted that."""
        noted = tenure.of(self.host.paths, self.tenure.job)
        if noted and noted.fresh:
            try:
                held.begin_anew()
            except (LeaseLost, StoreUnavailable) as error:  # the heart sees to what comes of it
                self.observer.note(str(error))

    def bar(self) -> None:
        """Let nothing of the job begin here any more.

        The engine of a `run` that was killed may still be about to make or start its container.
        """
        job = self.tenure.job
        tenure.note(self.host.paths, replace(self.tenure, barred=True))
        to_do = supervising.was_killed(self.host.paths, job)
        while to_do and not self.unless():
            record, host = jobs.load(self.host.paths, job), self.host.of(job)
            try:
                mine = record is not None and record.epoch == self.tenure.epoch
                found = host.job_container(job) if mine else None
                if found:
                    host.engine.remove(found.id)
                to_do = False
            except EngineError as error:
                self.observer.note(str(error))
                sleep(_SILENT)
