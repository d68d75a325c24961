"""What `ps` and `logs` show: the job's whole life, wherever its pieces are kept."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from spotrun.images.errors import JobStored
from spotrun.images.logfile import WHOLE, Excerpt, LogLine, parse
from spotrun.runtime import commands, jobs
from spotrun.runtime.engine import Container
from spotrun.runtime.host import Host


@dataclass(frozen=True, slots=True)
class Row:
    """One job."""

    job: str
    status: str
    """The engine's word, with the exit code of one that has ended; `stored`; `moved to …`."""
    image: str
    epoch: int
    snapshot: str | None
    """The newest one it was saved to or restored from."""
    container: str | None
    """Its id."""
    engine: str
    """That it is, or was last, on."""


def jobs_here(host: Host, *, every: bool) -> list[Row]:
    """Return the jobs that run, have ended or are stored here; with `every`, also moved ones."""
    containers = {found.job: found for found in commands.containers(host)}
    rows = []
    for record in jobs.all_records(host.paths):
        container = containers.get(record.name)
        status = _status(record, container)
        if status and (every or container or record.place is not jobs.Place.MOVED):
            rows.append(
                Row(
                    job=record.name,
                    status=status,
                    image=record.run.image,
                    epoch=record.epoch,
                    snapshot=record.parent,
                    container=container.id if container else None,
                    engine=record.engine,
                )
            )
    return rows


def logs(host: Host, job: str, *, follow: bool, part: Excerpt = WHOLE) -> Iterator[LogLine]:
    """Yield a job's output from its container, or, when it is stored, from its snapshot."""
    record = jobs.load(host.paths, job)
    try:
        on, found = commands.container(host, job)
    except JobStored:
        if record is None:
            raise
        yield from _logs_of_snapshot(host, record, part)
    else:
        yield from on.engine.logs(found.id, follow=follow, part=part)


def _logs_of_snapshot(host: Host, record: jobs.Job, part: Excerpt) -> Iterator[LogLine]:
    store = host.store(record.store)
    manifest = store.find(record.name, record.parent)
    if manifest.log:
        with TemporaryDirectory(dir=host.paths.scratch) as folder:
            store.fetch(manifest, Path(folder), only=[manifest.log])
            with Path(folder, manifest.log).open("rb") as file:
                yield from parse(file, part)


def _status(record: jobs.Job, container: Container | None) -> str | None:
    if container:
        ended = container.status in {"exited", "stopped"}
        return f"exited ({container.exit_code})" if ended else container.status
    if record.place is jobs.Place.MOVED:
        return f"moved to {record.target}"
    return "stored" if record.place is jobs.Place.STORED else None
