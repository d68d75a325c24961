"""What `ps` and `logs` show: the job's whole life, wherever its pieces are kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from spotrun.images.errors import EngineError, JobStored
from spotrun.images.logfile import WHOLE, Excerpt, LogLine, parse
from spotrun.runtime import commands, jobs, supervising
from spotrun.runtime.engine import Container
from spotrun.runtime.host import Host
from spotrun.runtime.jobs import Job, Place


@dataclass(frozen=True, slots=True)
class Row:
    """One job."""

    job: str
    status: str
    """The engine's word, with the exit code of one that has ended; `stored`; `moved to …`.

    `untended` is added for one that was looked after, and whose supervisor was killed.
    """
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
    records = jobs.all_records(host.paths)
    containers, silent = _containers(host, records)
    rows = []
    for record in records:
        container = containers.get(record.name)
        status = _status(record, container, silent)
        running = container is not None and container.running
        if running and supervising.lacks_supervisor(host.paths, record.name):
            status = f"{status}, untended"
        if status and (every or container or record.place is not Place.MOVED):
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


def _containers(
    host: Host, records: Sequence[Job]
) -> tuple[dict[str | None, Container], frozenset[str]]:
    """Return the jobs' containers by job, and the engines that do not say what they have."""
    found, silent = [], set()
    for engine in commands.in_use(records):
        try:
            found += commands.containers(host, engine, records)
        except EngineError:  # the jobs of the other one are there nevertheless
            silent.add(engine)
    return {it.job: it for it in found}, frozenset(silent)


def logs(host: Host, job: str, *, follow: bool, part: Excerpt = WHOLE) -> Iterator[LogLine]:
    """Yield a job's output from its container, or, when it is stored, from its snapshot.

    One that comes back may have gone on elsewhere since: then it is the newest.
    """
    record = jobs.load(host.paths, job)
    try:
        on, found = commands.container(host, job)
    except JobStored:
        if record is None:
            raise
        yield from _logs_of_snapshot(host, record, part)
    else:
        yield from on.engine.logs(found.id, follow=follow, part=part)


def _logs_of_snapshot(host: Host, record: Job, part: Excerpt) -> Iterator[LogLine]:
    store = host.store(record.store)
    manifest = store.find(record.name, None if record.care else record.parent)
    if manifest.log:
        with TemporaryDirectory(dir=host.paths.scratch) as folder:
            store.fetch(manifest, Path(folder), only=[manifest.log])
            with Path(folder, manifest.log).open("rb") as file:
                yield from parse(file, part)


def _status(record: Job, container: Container | None, silent: frozenset[str]) -> str | None:
    if record.place is Place.HERE and record.engine in silent:
        return f"unknown: {record.engine} does not answer"
    if container:
        ended = container.status in {"exited", "stopped"}
        return f"exited ({container.exit_code})" if ended else container.status
    if record.place is Place.MOVED:
        return f"moved to {record.target}"
    return "stored" if record.is_stored else None
