"""What this host knows of its jobs beside what the engine and the store know."""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from spotrun.images.durable import write_atomic
from spotrun.images.errors import UsageError
from spotrun.images.manifest import JOB_NAME, RunSpec
from spotrun.images.opening import Address
from spotrun.runtime.paths import Paths


class Place(StrEnum):
    """Where a job is."""

    HERE = "here"
    STORED = "stored"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class Job:
    """The record of one job."""

    name: str
    run: RunSpec
    store: Address
    """Where its snapshots go."""
    place: Place = Place.HERE
    epoch: int = 0
    """Grows by one with every restore."""
    parent: str | None = None
    """The snapshot it last was saved to or restored from."""
    target: str | None = None
    """The host it has moved to."""


def check_name(name: str) -> str:
    """Return a name that can be a job's, or raise UsageError."""
    if not JOB_NAME.fullmatch(name):
        raise UsageError(message=f"{name!r} cannot be a job's name: use letters, digits, _ . -")
    return name


def load(paths: Paths, name: str) -> Job | None:
    """Return a job's record, or None."""
    try:
        raw = (paths.jobs / f"{check_name(name)}.json").read_bytes()
    except FileNotFoundError:
        return None
    return msgspec.json.decode(raw, type=Job)


def save(paths: Paths, job: Job) -> None:
    """Write a job's record, durably."""
    write_atomic(paths.jobs / f"{job.name}.json", msgspec.json.encode(job))


def forget(paths: Paths, name: str) -> None:
    """Remove a job's record."""
    (paths.jobs / f"{name}.json").unlink(missing_ok=True)


def all_records(paths: Paths) -> list[Job]:
    """Return all records, by name."""
    found = (load(paths, path.stem) for path in sorted(paths.jobs.glob("[!.]*.json")))
    return [job for job in found if job]
