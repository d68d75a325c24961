"""The rest of a container's day: the engine's own commands, on jobs.

Those that change what a capture or a restore works on hold the job's lock, and are told who does
when somebody else holds it. What a supervisor is at by itself gives way to them.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final

from spotrun.images import lease, ledger
from spotrun.images.address import Address
from spotrun.images.errors import EngineError, ExitCode, SnapshotsInUse, Unsettled, UsageError
from spotrun.images.store import Store
from spotrun.runtime import afresh, jobs, locks, saving, supervising, tenure, transaction, unsent
from spotrun.runtime.engine import Container
from spotrun.runtime.host import Host
from spotrun.runtime.jobs import Job, Place
from spotrun.runtime.locks import Need

_FORCE: Final = "--force"


@dataclass(frozen=True, slots=True)
class Line:
    """A command line of the engine: `verb options jobs behind`."""

    verb: str
    options: Sequence[str]
    jobs: Sequence[str]
    """By name, or by the id of their container."""
    behind: Sequence[str] = ()
    """What is meant for the container."""


def pass_on(host: Host, line: Line, need: Need) -> int:
    """Let the engine do it; return its exit status, or 85 if the job has left meanwhile."""
    found = [(word, *container(host, word)) for word in line.jobs]
    names = [str(it.job) for _, _, it in found]
    marked = names if line.verb == "restart" else []
    for name in marked:
        _refuse_restart(host, name)
    with _undisturbed(host, line.verb, names, need), afresh.wanted(host.paths, marked):
        status = 0
        for _, group in groupby(found, key=lambda it: it[1].engine.name):
            here = list(group)
            called = [word if it.name == it.job else it.id for word, _, it in here]
            words = [line.verb, *line.options, *called, *line.behind]
            status = here[0][1].engine.command(words) or status
    return ExitCode.PREEMPTED if any(jobs.has_left(host.paths, it) for it in names) else status


def _refuse_restart(host: Host, name: str) -> None:
    """Raise UsageError for a job that comes back: from snapshots of a life that would be over."""
    record = jobs.load(host.paths, name)
    if record and record.care:
        raise UsageError(
            message=f"job {name!r} would come back as it was before: `spotrun stop {name}`, and"
            f" `spotrun run --fresh --job {name} …`, begin it anew"
        )


def container(host: Host, job: str) -> tuple[Host, Container]:
    """Return a job's container and this host with its engine, or raise where the job is."""
    host = host.of(job)
    found = None if jobs.has_left(host.paths, job) else host.container(job)
    if found is None or found.job is None:
        raise jobs.absent(host.paths, job)
    return host, found


def running(host: Host) -> list[str]:
    """Return the names of the jobs that have processes here, as far as their engines answer."""
    records = jobs.all_records(host.paths)
    found: list[Container] = []
    for engine in in_use(records):
        with suppress(EngineError):  # its jobs may run without it, but nobody else could tell
            found += containers(host, engine, records)
    return [str(it.job) for it in found if it.running]


def in_use(records: Sequence[Job]) -> list[str]:
    """Return the names of the engines that have jobs."""
    return sorted({it.engine for it in records if it.place is Place.HERE})


def containers(host: Host, engine: str, records: Sequence[Job]) -> list[Container]:
    """Return the containers of the jobs that are on one engine, or raise EngineError."""
    on = host.on(engine)
    named = [it for it in records if it.engine == engine and it.container]
    adopted = [on.container(it.name) for it in named if it.place is Place.HERE]
    return on.engine.jobs() + [it for it in adopted if it]


def wait(host: Host, names: Sequence[str]) -> list[int]:
    """Wait until jobs have ended, and return their exit codes: 85 for one that left this host."""
    found = [None if jobs.has_left(host.paths, it) else container(host, it) for it in names]
    return [exit_code(*it) if it else int(ExitCode.PREEMPTED) for it in found]


def exit_code(host: Host, waited: Container) -> int:
    """Wait until a job's container has ended, and return its exit code: 85 if the job has left."""
    job = str(waited.job)
    try:
        status = host.engine.wait(waited.id)
    except EngineError:  # it has gone, with --rm or with its job
        if jobs.has_left(host.paths, job):
            return ExitCode.PREEMPTED
        told = host.engine.last_exit(job, datetime.fromisoformat(waited.created))
        if told is None:
            raise
        status = told
    return ExitCode.PREEMPTED if jobs.has_left(host.paths, job) else status


def remove(
    host: Host,
    job: str,
    options: Sequence[str],
    *,
    snapshots: bool,
    elsewhere: Address | None = None,
) -> None:
    """Remove a job's container with these options, and forget the job.

    Its snapshots stay, unless they are to go too. Those of a job that this host does not know are
    `elsewhere`.
    """
    host = host.of(job)
    found = host.container(job)
    ours = found if found and found.job else None
    name = str(ours.job) if ours else job
    record = jobs.load(host.paths, name)
    address = record.store if record else elsewhere
    known = ours or record or (snapshots and address and _has_any(host.store(address), name))
    if not known:
        raise jobs.absent(host.paths, name)
    if snapshots and record and record.place is Place.MOVED:
        raise jobs.absent(host.paths, name)  # where it runs, it may need them
    if snapshots and _FORCE not in options:
        _refuse_another_holder(host, name, address)
    with _undisturbed(host, "rm", [name], Need.HELD):
        if ours:
            host.engine.command(["rm", *options, ours.id], silent=True)
        store = host.store(address) if snapshots else None
        if store:
            unsent.drop(host, name)
            store.remove(name, *(snapshot for _, snapshot in store.ids(name)))
        jobs.forget(host.paths, name)
    if store:
        supervising.await_end(host, name)  # it writes that the job has ended
        ledger.forget(store, name)


def _has_any(store: Store, job: str) -> bool:
    """Tell whether a store has anything of a job."""
    return bool(store.ids(job)) or job in ledger.jobs(store)


def _refuse_another_holder(host: Host, job: str, address: Address | None) -> None:
    """Raise SnapshotsInUse if another host has the job's lease, alive or not."""
    noted, leased = tenure.of(host.paths, job), lease.read(host.store(address), job)
    if leased and leased.held and (noted is None or noted.holder != leased.holder):
        raise SnapshotsInUse(job=job, host=leased.host)


@contextmanager
def _undisturbed(host: Host, verb: str, names: Sequence[str], need: Need) -> Iterator[None]:
    """Let nobody work on the jobs meanwhile, as far as the command needs it."""
    with ExitStack() as held:
        for name in dict.fromkeys(names) if need is not Need.NONE else ():
            now, tended = host.clock.now(), supervising.supervised(host.paths, name)
            if tended:
                saving.cut_off(host.paths, name)
            held.enter_context(locks.hold(host.paths.locks, name, verb, now, wait=tended))
            left = transaction.entry_of(host, name)
            if left is not None:
                raise Unsettled(job=name, verb=left.verb)
        if need is Need.FREE:
            held.close()
        yield
