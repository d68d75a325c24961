"""Who looks after a job: a process of its own, begun by whoever brings the job here.

Two locks a job say how things stand: one is held by its supervisor as long as that lives, the other
by who is about to bring the job up. If nobody is, and no container runs, the lease is given up.
"""

import fcntl
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from spotrun.images.address import Address
from spotrun.images.errors import HostUnfit, JobBusy, JobUntended, SpotrunError
from spotrun.images.meter import often
from spotrun.runtime import jobs, locks, standing, systemd, tenure
from spotrun.runtime.host import Host
from spotrun.runtime.paths import Paths
from spotrun.runtime.standing import Standing
from spotrun.runtime.tenure import Tenure

SUPERVISE: Final = "supervise"
"""The verb of a supervisor."""
_PATIENCE: Final = 20.0
"""Seconds in which a supervisor begins its work, and ends it when its job has gone."""
_LOOK: Final = 2.0
"""Seconds between two looks for one that was killed; systemd takes one to begin it again."""
_LAUNCH: Final = "~launch"
_GLANCE: Final = 0.02
_GLANCES: Final = 10


@contextmanager
def launching(
    host: Host,
    job: str,
    store: Address,
    *,
    above: int = 0,
    by_force: bool = False,
    unless_ended: bool = False,
    tell: Callable[[str], None],
) -> Iterator[Tenure]:
    """Take the job's lease and have it looked after, while the job is brought up inside.

    What fails inside gives the lease up again; JobBusy: somebody here has the job already. With
    `unless_ended`, HasEnded is raised for one that has come to a good end.
    """
    await_end(host, job)
    with _held(_lock(host.paths, f"{job}{_LAUNCH}"), job, "run"):
        if supervised(host.paths, job):
            raise _busy(_lock(host.paths, job), job, SUPERVISE)
        (host.paths.notices / job).unlink(missing_ok=True)
        standing.forget(host.paths, job)
        taken = tenure.take(
            host,
            job,
            store,
            above=above,
            by_force=by_force,
            unless_ended=unless_ended,
            tell=tell,
        )
        try:
            begin(host, job)
        except HostUnfit:
            tenure.give_up(host, job)
            raise
        yield taken


def await_end(host: Host, job: str) -> None:
    """Let the supervisor of a job that has gone, or was never brought up, come to its end.

    The latter's does when nobody is about to bring the job up, so neither may we be yet.
    """
    end = monotonic() + _PATIENCE
    while supervised(host.paths, job) and not launched(host.paths, job) and monotonic() < end:
        found = host.of(job).container(job)
        if found and found.running:
            return
        sleep(_GLANCE)


def supervised(paths: Paths, job: str) -> bool:
    """Tell whether a supervisor of the job lives here."""
    return locks.is_held(paths.supervisors, job)


def launched(paths: Paths, job: str) -> bool:
    """Tell whether somebody is about to bring the job up here."""
    return locks.is_held(paths.supervisors, f"{job}{_LAUNCH}")


def was_killed(paths: Paths, job: str) -> bool:
    """Tell whether who was to bring the job up came to no end of its own."""
    with suppress(FileNotFoundError):
        return bool(_lock(paths, f"{job}{_LAUNCH}").read_text())
    return False


@dataclass(frozen=True, slots=True)
class Row:
    """One job that is looked after."""

    job: str
    epoch: int
    snapshot: str | None
    """The newest one that it was saved to or restored from."""
    standing: Standing | None
    """None: its supervisor has not said anything yet."""


def jobs_here(paths: Paths) -> list[str]:
    """Return the names of the jobs that are looked after on this host."""
    return [it for it in _leased(paths) if supervised(paths, it)]


def _leased(paths: Paths) -> list[str]:
    return sorted(path.stem for path in paths.leases.glob("[!.]*.json"))


def tended(paths: Paths, names: Sequence[str]) -> Sequence[str]:
    """Return these jobs, or all that are looked after here; JobNotFound: one is not."""
    here = jobs_here(paths)
    for name in names:
        record = jobs.load(paths, name)
        if record is None or record.place is not jobs.Place.HERE:
            raise jobs.absent(paths, name)
        if name not in here:
            raise JobUntended(job=name)
    return names or here


def rows(host: Host, names: Sequence[str]) -> list[Row]:
    """Tell of these jobs, or of all that are looked after here; JobNotFound: one is not."""
    records = [jobs.load(host.paths, it) for it in tended(host.paths, names)]
    return [
        Row(it.name, it.epoch, it.parent, standing.read(host.paths, it.name))
        for it in records
        if it
    ]


@contextmanager
def serving(paths: Paths, job: str) -> Iterator[int]:
    """Be the job's supervisor; yield the descriptor of the lock, which a child has, too."""
    with _held(_lock(paths, job), job, SUPERVISE) as fd:
        try:
            yield fd
        finally:  # it is begun again only if it was killed
            (paths.environments / job).unlink(missing_ok=True)


def is_left_alone(host: Host, job: str) -> bool:
    """Tell whether a job runs here by a lease that nobody renews: its supervisor was killed."""
    found = host.of(job).job_container(job) if lacks_supervisor(host.paths, job) else None
    return found is not None and found.running


def lacks_supervisor(paths: Paths, job: str) -> bool:
    """Tell whether a job has a lease here that nobody renews, and was brought up by it."""
    if supervised(paths, job):
        return False
    noted, record = tenure.of(paths, job), jobs.load(paths, job)
    here = record if record and record.place is jobs.Place.HERE else None
    return bool(noted and here and noted.epoch == here.epoch)


def left_alone(host: Host) -> list[str]:
    """Return the jobs that nobody looks after any more, as far as that can be known."""
    found = []
    for name in _leased(host.paths):
        with suppress(SpotrunError):
            found += [name] if is_left_alone(host, name) else []
    return found


def upheld(host: Host, job: str) -> AbstractContextManager[None]:
    """See to it that a job has a supervisor, should that be killed, as long as this lasts."""

    def look() -> None:
        with suppress(SpotrunError, OSError):  # at the next look it may do
            if is_left_alone(host, job):
                begin(host, job)

    return often(look, _LOOK)


def begin(host: Host, job: str) -> None:
    """Start a supervisor, and wait until it lives; HostUnfit: it does not come to that."""
    log = host.paths.supervisor_log(job)
    argv = [*myself(), SUPERVISE, job]
    unit = f"spotrun-{job}-{os.urandom(3).hex()}"  # that of an earlier one may not be gone yet
    if not systemd.serve(
        host.runner, unit, argv, environment=host.paths.environments / job, log=log
    ):
        host.runner.spawn(argv, log=log)
    end = monotonic() + _PATIENCE
    while not supervised(host.paths, job):
        if monotonic() > end:
            raise HostUnfit(message=f"the supervisor of job {job!r} does not start; see {log}")
        sleep(0.02)


def myself() -> list[str]:
    """Return the command that starts this program again."""
    return [sys.executable, "-c", "from spotrun.cli.main import main; main()"]


@contextmanager
def _held(path: Path, job: str, verb: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _locked(fd):
            raise _busy(path, job, verb)
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        try:
            yield fd
        finally:
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _busy(lock: Path, job: str, verb: str) -> JobBusy:
    since = datetime.fromtimestamp(lock.stat().st_mtime, UTC).isoformat(timespec="seconds")
    return JobBusy(job=job, pid=lock.read_text(), verb=verb, since=since)


def _locked(fd: int) -> bool:
    """Lock it, and be patient with those who only look whether it is."""
    for _ in range(_GLANCES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(_GLANCE)
        else:
            return True
    return False


def _lock(paths: Paths, name: str) -> Path:
    return paths.supervisors / f"{name}.lock"
