"""The leases that this host has: one process takes a job's, all of spotrun's here share it.

What is noted survives a crash and a reboot: the note says which holder is dead for sure when
nobody supervises the job any more.
"""

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import sleep

import msgspec

from spotrun.images import lease
from spotrun.images.address import Address
from spotrun.images.durable import write_json
from spotrun.images.errors import EngineError, ExitCode, LeaseHeld, LeaseLost
from spotrun.images.lease import Lease
from spotrun.images.manifest import Manifest
from spotrun.runtime import fence, kept
from spotrun.runtime.host import Host
from spotrun.runtime.jobs import check_name
from spotrun.runtime.paths import Paths


class HasEnded(Exception):
    """The job has come to its end, maybe while its lease was waited for."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """A lease that this host has taken."""

    job: str
    holder: str
    epoch: int
    store: Address
    ended: int | None = None
    """Exit code with which the job had come to its end before: it counts if it does not begin."""
    fresh: bool = False
    """Whether the job is to begin anew, as its user wants."""
    barred: bool = False
    """Whether the shim lets the job begin here no more: the lease is about to be given up."""


def of(paths: Paths, job: str) -> Tenure | None:
    """Return what is noted; None: this host has not taken the job's lease, or has given it up."""
    return kept.read(_note(paths, job), Tenure)


def note(paths: Paths, taken: Tenure) -> None:
    """Note what this host has taken, durably."""
    write_json(_note(paths, taken.job), msgspec.to_builtins(taken))


def take(
    host: Host,
    job: str,
    store: Address,
    *,
    above: int,
    by_force: bool,
    unless_ended: bool = False,
    tell: Callable[[str], None],
) -> Tenure:
    """Take a job's lease, and wait for it if somebody has it: for a minute, or while they renew.

    What a process of this host has taken and nobody renews is dead. `by_force` takes it from
    whoever has it now, for whom the user answers. With `unless_ended`, HasEnded is raised for a job
    that has come to a good end.
    """
    opened = host.store(store)
    wanted = _lease(host, job, store)
    before, record = of(host.paths, job), lease.read(opened, job)
    dead = before.holder if before else None
    if by_force and record:
        dead = record.holder

    def look() -> None:
        found = lease.read(opened, job) if unless_ended else None
        if found and found.ended == ExitCode.OK:
            raise HasEnded

    _acquire(wanted, above, dead, look, tell)
    taken = Tenure(job, wanted.holder, wanted.epoch, store, record.ended if record else None)
    note(host.paths, taken)
    fence.put_off(host.paths, job, wanted.expires_at)
    return taken


def _acquire(
    wanted: Lease,
    above: int,
    dead: str | None,
    look: Callable[[], None],
    tell: Callable[[str], None],
) -> None:
    told = None
    while True:
        look()
        try:
            wanted.acquire(above=above, dead=dead)
        except LeaseHeld as held:
            holder, wait = held.fields["holder"], float(str(held.fields["wait"]))
            if told != holder:
                tell(f"{held}; it is taken when nothing is heard of that for {wait:.0f} s")
                told = holder
            sleep(min(wait, 2.0))
        else:
            return


def joined(host: Host, job: str, store: Address) -> Lease | None:
    """Return the job's lease in that store if this host has it, to be used as long as it has."""
    noted = of(host.paths, job)
    if noted is None or noted.store != store:
        return None
    held = _lease(host, job, store)
    try:
        held.join(noted.holder, noted.epoch)
    except LeaseLost:
        fence.close(host.paths, job)
        raise
    return held


def epoch_here(host: Host, job: str, store: Address) -> int | None:
    """Return the epoch at which this host has the lease, as the store says; None: it has not."""
    noted, found = of(host.paths, job), lease.read(host.store(store), job)
    if noted and found and (noted.holder, noted.epoch) == (found.holder, found.epoch):
        return found.epoch
    return None


def last_exit(host: Host, job: str) -> int | None:
    """Return the exit code of its last container that has ended since the lease was taken.

    None: there is none, or its engine does not say it.
    """
    host = host.of(job)
    with suppress(EngineError, FileNotFoundError):
        taken = _note(host.paths, job).stat().st_mtime
        return host.engine.last_exit(job, datetime.fromtimestamp(taken, UTC))
    return None


@contextmanager
def lent(host: Host, manifest: Manifest, store: Address) -> Iterator[Lease | None]:
    """Yield the lease to publish a snapshot that was kept; None: its job has none there.

    LeaseLost: the job has gone on since, without it; LeaseHeld: it may be doing so.
    """
    job = manifest.job
    record = lease.read(host.store(store), job)
    if record is None:
        yield None
        return
    last = host.store(store).committed(job)[-1:]
    anew = record.anew > manifest.epoch or record.ended == ExitCode.OK
    if anew or last not in ([], [manifest.parent]):
        raise LeaseLost(job=job, reason=f"the job has gone on since on {record.host}")
    held = joined(host, job, store)
    if held:
        yield held
        return
    held = _lease(host, job, store)
    held.acquire()
    try:
        yield held
    finally:
        held.release(ended=record.ended)


def give_up(host: Host, job: str, *, ended: int | None = None) -> None:
    """Let others have it at once: the job does not run here, or has ended with that exit code."""
    noted = of(host.paths, job)
    if noted:
        with suppress(LeaseLost):
            held = joined(host, job, noted.store)
            if held:
                held.release(ended=ended)
    forget(host.paths, job)


def forget(paths: Paths, job: str) -> None:
    """Note that this host has nothing to do with the job's lease any more."""
    _note(paths, job).unlink(missing_ok=True)
    fence.remove(paths, job)


def _lease(host: Host, job: str, store: Address) -> Lease:
    return Lease(host.store(store), job, host=platform.node(), duration=host.lease_seconds)


def _note(paths: Paths, job: str) -> Path:
    return paths.leases / f"{check_name(job)}.json"
