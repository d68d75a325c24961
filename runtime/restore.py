"""The verb restore: a stored job goes on here, under its lease if it has one."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from spotrun.images import lease
from spotrun.images.address import Address
from spotrun.images.care import Care
from spotrun.images.errors import NameTaken, RestoreFailed, SnapshotNotFound
from spotrun.images.manifest import Kind, Manifest
from spotrun.runtime import chronicle, jobs, locks, supervising, transaction
from spotrun.runtime.engine import Container
from spotrun.runtime.host import Host
from spotrun.runtime.restoring import RESTORE, RESTORE_FILES, RestoreState
from spotrun.runtime.transaction import Observer, Session


def restore(
    host: Host,
    job: str,
    *,
    snapshot: str | None,
    name: str | None,
    store: Address | None,
    engine: str | None = None,
    observer: Observer,
) -> RestoreState:
    """Let a stored job go on here, under its own or another name, on its engine or that one."""
    name = jobs.check_name(name or job)
    host = host.on(engine) if engine else host.of(job)
    record = jobs.load(host.paths, job)
    address = store or (record.store if record else host.own_store)
    manifest = _manifest(host, job, snapshot, address)
    if name != job:
        jobs.refuse_stored(host.paths, name)
        return go_on(host, name, manifest, address, observer=observer)
    leased = lease.read(host.store(address), job) is not None
    care = manifest.care or (Care() if leased else None)
    if care is None:
        return go_on(host, name, manifest, address, observer=observer)
    with supervising.launching(
        host, job, address, above=manifest.epoch, tell=observer.note
    ) as tenure:
        manifest, begun = _manifest(host, job, snapshot, address), host.clock.monotonic()
        state = go_on(
            host, name, manifest, address, care=care, epoch=tenure.epoch, observer=observer
        )
        chronicle.write(
            host,
            job,
            address,
            "restored",
            epoch=tenure.epoch,
            rung=state.kind.value,
            snapshot=manifest.snapshot,
            seconds=host.clock.monotonic() - begun,
        )
        return state


def go_on(
    host: Host,
    name: str,
    manifest: Manifest,
    store: Address,
    *,
    kind: Kind | None = None,
    care: Care | None = None,
    epoch: int | None = None,
    in_place: bool = False,
    observer: Observer,
) -> RestoreState:
    """Let a job go on from a snapshot, or only from its files; by default as that is.

    Under a lease it has that one's `epoch`. With `in_place`, a container of it that has come to a
    good end makes way, too.
    """
    with locks.hold(host.paths.locks, name, "restore", host.clock.now(), wait=False) as lock:
        taken = _making_way(host, name, in_place=in_place)
        state = RestoreState(
            job=name,
            engine=host.engine.name,
            manifest=manifest,
            kind=kind or manifest.kind,
            store=store,
            epoch=manifest.epoch + 1 if epoch is None else epoch,
            care=care,
            attempt=f"{manifest.snapshot}-{host.clock.now().timestamp():.6f}",
            replaced=taken.id if taken else None,
        )
        how = RESTORE if state.kind is Kind.LIVE else RESTORE_FILES
        with _volumes_to_itself(host, manifest), transaction.failing_as(partial(_failed, state)):
            transaction.run(Session(host, lock, observer), how, state)
    return state


def _making_way(host: Host, name: str, *, in_place: bool) -> Container | None:
    """Return the ended container of a job that a restore replaces, or raise NameTaken."""
    elsewhere = host.of(name)
    running = elsewhere.container(name) if elsewhere.engine.name != host.engine.name else None
    if running and running.running:
        raise NameTaken(name=name, where=elsewhere.engine.name, container=running.id[:12])
    taken = host.engine.find(name)
    if taken and (taken.job != name or taken.running or (taken.finished and not in_place)):
        raise NameTaken(name=name, where="this host", container=taken.id[:12])
    return taken


def _manifest(host: Host, job: str, snapshot: str | None, store: Address) -> Manifest:
    """Return the one that is meant; of a job that took them all along, say where it is."""
    try:
        return host.store(store).find(jobs.check_name(job), snapshot)
    except SnapshotNotFound:
        record = jobs.load(host.paths, job)
        if snapshot is None and record and record.place is jobs.Place.MOVED:
            raise jobs.absent(host.paths, job) from None
        raise


@contextmanager
def _volumes_to_itself(host: Host, manifest: Manifest) -> Iterator[None]:
    """Let no other restore make the same volumes meanwhile: both would take them for their own."""
    names = sorted({tree.volume for tree in manifest.trees if tree.volume})
    with ExitStack() as held:
        for name in names:
            lock = locks.hold(host.paths.locks, f"~{name}", "restore", host.clock.now(), wait=True)
            held.enter_context(lock)
        yield


def _failed(state: RestoreState, error: Exception) -> RestoreFailed:
    log = getattr(error, "log", None)
    return RestoreFailed(snapshot=state.snapshot, reason=error, log=log)
