"""What this host knows of its jobs beside what the engine and the store know."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from spotrun.images.address import Address
from spotrun.images.care import Care
from spotrun.images.durable import indented, overwrite, write_json
from spotrun.images.errors import (
    JobMoved,
    JobNotFound,
    JobStored,
    JobUnsaved,
    NoRoom,
    StateDamaged,
    UsageError,
)
from spotrun.images.runspec import JOB_NAME, RunSpec
from spotrun.runtime import kept
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
    files_only: bool = False
    """Whether that has no processes."""
    target: str | None = None
    """The host it has moved to."""
    engine: str = "podman"
    """The one it is, or was last, on."""
    container: str | None = None
    """Id of one that others started and named; None: the job's container has its name."""
    care: Care | None = None
    """How it is looked after; None: it is saved when somebody says so."""

    @property
    def is_stored(self) -> bool:
        """Tell whether it is a snapshot; one that has left may be nothing at all."""
        return self.place is Place.STORED and self.parent is not None


def check_name(name: str) -> str:
    """Return a name that can be a job's, or raise UsageError."""
    if not JOB_NAME.fullmatch(name):
        raise UsageError(message=f"{name!r} cannot be a job's name: use letters, digits, _ . -")
    return name


def load(paths: Paths, name: str) -> Job | None:
    """Return a job's record, or None; StateDamaged: it cannot be read."""
    return kept.read(_path(paths, name), Job)


def save(paths: Paths, job: Job) -> None:
    """Write a job's record, durably."""
    write_json(_path(paths, job.name), asdict(job))


def forget(paths: Paths, name: str) -> None:
    """Remove a job's record, and CRIU's configuration for it."""
    _path(paths, name).unlink(missing_ok=True)
    paths.criu_config(name).unlink(missing_ok=True)


def let_go(paths: Paths, job: Job, taker: str | None = None) -> None:
    """Note that a job goes on elsewhere: where the taker has it, or from its last snapshot.

    It is about to be ended, so that this is written even where there is no room.
    """
    gone = replace(job, place=Place.STORED)
    if taker:
        gone = replace(job, place=Place.MOVED, target=taker)
    try:
        save(paths, gone)
    except NoRoom:
        overwrite(_path(paths, job.name), indented(asdict(gone)))


def has_left(paths: Paths, name: str) -> bool:
    """Tell whether a job that was here is stored or on another host."""
    try:  # `run` asks, for whom what `load` needs takes long to import
        found = json.loads(_path(paths, name).read_bytes())
    except FileNotFoundError:
        return False
    except ValueError as error:
        raise StateDamaged(file=_path(paths, name), reason=error) from error
    return bool(found["place"] != Place.HERE)


def refuse_stored(paths: Paths, name: str) -> None:
    """Raise UsageError for the name of a job that is stored: another one would take its place."""
    record = load(paths, name)
    if record and record.is_stored:
        raise UsageError(
            message=f"job {name!r} is stored as {record.parent}: `spotrun restore {name}` goes on"
            " with it; for another job take another --name"
        )


def absent(paths: Paths, name: str) -> JobNotFound:
    """Return the error for a job that has no container here: it says where the job is."""
    record = load(paths, name)
    if record and record.place is Place.MOVED:
        return JobMoved(job=name, target=record.target)
    if record and record.place is Place.STORED and not record.parent:
        return JobUnsaved(job=name)
    if record and record.place is Place.STORED:
        verb, command = "is", f"spotrun restore {name}"
        if record.care:  # it may have gone on elsewhere since
            verb, command = "left this host,", f"spotrun run --job {name} …"
        part = ", its files only" if record.files_only else ""
        if (paths.unsent / f"{record.parent}.json").exists():
            part += ", which only this host has until `spotrun push` sends it"
        return JobStored(job=name, verb=verb, snapshot=record.parent, part=part, command=command)
    return JobNotFound(job=name)


def all_records(paths: Paths) -> list[Job]:
    """Return all records that can be read, by name: one job's fault is not that of others."""
    found: list[Job] = []
    for path in sorted(paths.jobs.glob("[!.]*.json")):
        with suppress(StateDamaged):
            job = load(paths, path.stem)
            found += [job] if job else []
    return found


def _path(paths: Paths, name: str) -> Path:
    return paths.jobs / f"{check_name(name)}.json"
