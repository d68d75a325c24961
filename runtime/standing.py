"""How things stand with a job, as its supervisor says: a file in the run folder, for `status`."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from spotrun.images.durable import write_json
from spotrun.runtime import kept
from spotrun.runtime.forecast import Forecast
from spotrun.runtime.paths import Paths


@dataclass(frozen=True, slots=True)
class Standing:
    """What a supervisor is about. Times are UTC, ISO 8601, by this host's clock."""

    pid: int
    since: str
    """When it began."""
    container: str | None
    """Id of the container that the job runs in."""
    saving: bool
    """Whether a snapshot is being made."""
    next: str
    """When the next one is due."""
    interval: float
    """Seconds between two."""
    forecast: Forecast
    saved: str | None
    """When what the newest snapshot has was there; None: this life of the job has none."""
    leaving: str | None
    """The notice that stands."""
    failed: bool = False
    """Whether the last snapshot that was tried has failed; why is in the supervisor's log."""


def write(paths: Paths, job: str, standing: Standing) -> None:
    """Say it."""
    write_json(_place(paths, job), msgspec.to_builtins(standing))


def read(paths: Paths, job: str) -> Standing | None:
    """Return what was said last; None: nobody looks after the job."""
    return kept.read(_place(paths, job), Standing)


def forget(paths: Paths, job: str) -> None:
    """Say nothing any more."""
    with suppress(FileNotFoundError):
        _place(paths, job).unlink()


def _place(paths: Paths, job: str) -> Path:
    return paths.supervisors / f"{job}.json"
