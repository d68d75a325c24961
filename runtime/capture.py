"""The capture transaction: a running container becomes a snapshot.

Memory and files are of one instant: the container stays frozen from before the dump until its
files are copied. It is ended only after the snapshot is committed, so a failure anywhere leaves
it running.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from spotrun.images import logformat, trees
from spotrun.images.address import Address
from spotrun.images.errors import CaptureFailed, NotCapturable, OciError, SpotrunError
from spotrun.images.logformat import LogFormat
from spotrun.images.manifest import Kind, Tree, new_snapshot_id
from spotrun.images.store import file_sizes
from spotrun.runtime import (
    chronicle,
    criu,
    doctor,
    facts,
    fence,
    fitness,
    jobs,
    locks,
    preflight,
    relinked,
    scratch,
    storing,
    transaction,
)
from spotrun.runtime.captured import IMAGES, CaptureState, spec_of, staged
from spotrun.runtime.engine import Container
from spotrun.runtime.host import Host
from spotrun.runtime.oci import DumpOptions
from spotrun.runtime.paths import Paths
from spotrun.runtime.processes import memory_of, overlay_upper, wait_for_output
from spotrun.runtime.transaction import Observer, Phase, Session, Transaction
from spotrun.runtime.watch import watched

_SHM: Final = "/dev/shm"  # noqa: S108 # a path in the container
_PASSING: Final = 3.0
"""Seconds in which what came in by `exec` may end by itself."""
_PAUSE: Final = 0.1
_MARGIN: Final = 64 << 20
"""Bytes that stay free beside the memory image: metadata and changed files."""


def checkpoint(
    host: Host,
    job: str,
    *,
    leave_running: bool,
    store: Address | None,
    kind: Kind = Kind.LIVE,
    last: bool = False,
    trouble: str = "",
    observer: Observer,
) -> CaptureState:
    """Save a running job; unless left running it is ended once the snapshot is committed.

    Only files are saved where it ends and there is no time for more. The `last` one is kept on this
    host if its store is full, or in another trouble that is known.
    """
    host = host.of(job)
    with locks.hold(host.paths.locks, job, "checkpoint", host.clock.now(), wait=False) as lock:
        state = begin(host, job, store=store, left_running=leave_running)
        state.kind, state.last, state.trouble = kind, last, trouble
        how = LEAVE_RUNNING if leave_running else STOP if kind is Kind.LIVE else STOP_FILES
        with transaction.failing_as(lambda error: failed(job, error)):
            transaction.run(Session(host, lock, observer), how, state)
    tell(host, state)
    return state


def tell(host: Host, state: CaptureState) -> None:
    """Write it into the history of a job that has one; a snapshot that is kept here is not yet."""
    if not state.care:
        return
    with suppress(SpotrunError):
        manifest = host.store(state.store).load(state.job, state.snapshot)
        chronicle.snapshot(host, manifest, state.store)


def failed(job: str, error: Exception) -> CaptureFailed:
    """Return the error for a capture that was taken back."""
    return CaptureFailed(job=job, reason=error, log=getattr(error, "log", None))


def begin(host: Host, job: str, *, store: Address | None, left_running: bool) -> CaptureState:
    """Look the job up and return the state from which its phases start."""
    container, record = _running(host, job), jobs.load(host.paths, job)
    if record is None:
        raise jobs.absent(host.paths, job)
    if store:
        _change_store(host, record, store)
    image = host.engine.image(container.image_id)
    if image is None:
        raise NotCapturable(job=job, reason="its image has been removed from this host")
    return CaptureState(
        job=job,
        engine=host.engine.name,
        container=container.id,
        snapshot=new_snapshot_id(host.clock.now(), after=record.parent),
        store=store or record.store,
        left_running=left_running,
        image=replace(image, name=record.run.image),
        run=record.run,
        epoch=record.epoch,
        care=record.care,
        parent=record.parent,
        pid=container.pid,
        bundle=str(container.bundle),
        upper=str(overlay_upper(container.pid) or container.upper),
        log=str(container.log.path) if container.log else None,
        log_format=container.log.format if container.log else LogFormat.KUBERNETES,
        volumes=_volumes(host, container),
    )


def _change_store(host: Host, record: jobs.Job, store: Address) -> None:
    """Make another store if need be; from an encrypted one a job moves to such a one only."""
    encrypted = bool(record.store.key_file)
    with suppress(SpotrunError):  # the reason for the change may be that it cannot be opened
        encrypted = host.store(record.store).encrypted
    if not host.store(store, make=True).encrypted and encrypted:
        reason = f"its store is encrypted, and {store.url} is not"
        raise NotCapturable(job=record.name, reason=reason)


def _running(host: Host, job: str) -> Container:
    found = host.container(job)
    if found is None or found.job != job:
        raise jobs.absent(host.paths, job)
    if not found.running:
        raise NotCapturable(job=job, reason=f"its container is {found.status}, not running")
    paused = found.status == "paused" and not fence.marked(host.paths, job)
    if paused or found.bundle is None:
        raise NotCapturable(job=job, reason="its container is paused; unpause it first")
    return found


def _volumes(host: Host, container: Container) -> list[Tree]:
    return [
        Tree(
            kind="mount",
            archive=str(mount.source),
            destination=mount.destination,
            volume=None if mount.anonymous else mount.volume,
            identity=host.engine.volume(mount.volume),
        )
        for mount in container.mounts
        if mount.volume
    ]


def _preflight(session: Session, state: CaptureState) -> None:
    """Refuse what cannot be saved, before anything is touched."""
    host = session.host
    version = cache(host.engine.version)
    doctor.require(doctor.examine(host.runner, version, thorough=False))
    state.host = facts.gather(host.runner, version())
    preflight.specification(state.job, spec_of(state))
    state.pids = _alone(host, state.container)
    preflight.examine(state.job, state.pids)
    state.memory = memory_of(state.pids) if state.kind is Kind.LIVE else 0
    needed = state.memory + _MARGIN
    storing.look(host, state)
    if (free := fitness.free_disk(host.paths.scratch)) < needed:
        reason = f"its memory needs {fitness.size(needed)}, {host.paths.scratch} has"
        raise NotCapturable(job=state.job, reason=f"{reason} {fitness.size(free)} free")


def _alone(host: Host, container: str) -> list[int]:
    """Return the processes, when those of an `exec` are gone: a healthcheck's do not last."""
    end = host.clock.monotonic() + _PASSING
    while True:
        pids = host.oci.processes(container)
        if preflight.from_outside(pids) is None or host.clock.monotonic() > end:
            return pids
        time.sleep(_PAUSE)


def _prepare(session: Session, state: CaptureState) -> None:
    """Make room for the files, and learn what the store has of the job already."""
    needed = state.memory + _MARGIN
    scratch.make(session.host.paths, state.snapshot, images=needed, memory=needed)
    storing.begin(session, state)


def _discard(session: Session, state: CaptureState) -> None:
    scratch.remove(session.host.paths, state.snapshot)
    storing.abandon(session, state)


def _freeze(session: Session, state: CaptureState) -> None:
    try:
        session.host.oci.freeze(state.container)
    except OciError:
        if session.host.oci.status(state.container) in {"running", "paused"}:
            raise
        raise NotCapturable(job=state.job, reason="it has ended in the meantime") from None
    state.pids = session.host.oci.processes(state.container)


def _thaw(session: Session, state: CaptureState) -> None:
    if session.host.oci.status(state.container) is not None:
        _let_run(session, state)


def _let_run(session: Session, state: CaptureState) -> None:
    """Thaw it, unless another host may have the job by now: then that is left to its guard."""
    if fence.left(session.host.paths, state.job) > 0:
        session.host.oci.thaw(state.container)
    else:
        fence.mark(session.host.paths, state.job)


def _suspend_gpu(session: Session, state: CaptureState) -> None:
    session.host.gpu.suspend(state.job, state.pids)


def _resume_gpu(session: Session, state: CaptureState) -> None:
    session.host.gpu.resume(state.pids)


def _dump(session: Session, state: CaptureState) -> int:
    folder = staged(session, state)
    options = DumpOptions(
        images=folder / IMAGES,
        work=folder / "work",
        criu_config=session.host.paths.criu_config(state.job),
        external=_external(state),
    )
    told = watched(options.images, state.memory, session.observer.progress)
    try:
        with told, _copying(session, state):
            session.host.oci.dump(state.container, options, pass_fds=(session.lock.fd,))
    except SpotrunError as error:
        error.log = _keep_log(session.host, state, error.log)
        raise
    return sum(file_sizes(folder / IMAGES).values())


def _external(state: CaptureState) -> tuple[str, ...]:
    """Leave the network to the engine of the next host also where runc has made the namespace."""
    spaces = {it["type"]: it.get("path") for it in spec_of(state)["linux"]["namespaces"]}
    inode = Path(f"/proc/{state.pid}/ns/net").stat().st_ino
    return () if spaces.get("network") else (f"net[{inode}]:{criu.NETWORK}",)


def _dump_and_send(session: Session, state: CaptureState) -> int:
    with storing.ahead(session, state):
        return _dump(session, state)


def _keep_log(host: Host, state: CaptureState, log: Path | None) -> Path | None:
    """Save CRIU's log from the staged folder, which is about to be discarded."""
    if log is None or not log.exists():
        return None
    kept = host.paths.state / f"{state.job}-dump.log"
    shutil.copyfile(log, kept)
    return kept


@contextmanager
def _copying(session: Session, state: CaptureState) -> Iterator[None]:
    """Copy the files beside a dump: CRIU changes none of those that are copied (preflight.py)."""
    with ThreadPoolExecutor(1) as beside:
        copied = beside.submit(_copy_trees, session, state)
        yield
        state.copying = copied.result()


def _copy_files(session: Session, state: CaptureState) -> int:
    """Copy what CRIU does not: changed files, volumes, /dev/shm and the log so far."""
    if not state.trees:
        _copy_trees(session, state)
    folder = staged(session, state)
    for tree in state.trees:
        if tree.destination == _SHM and state.kind is Kind.LIVE:
            relinked.add(state, folder, tree)
    copied = [folder / tree.archive for tree in state.trees]
    if state.log:
        wait_for_output(state.pid)
        logformat.copy(Path(state.log), folder / "log")
        copied.append(folder / "log")
    return sum(path.stat().st_size for path in copied)


def _copy_trees(session: Session, state: CaptureState) -> float:
    """Return the seconds that it took."""
    folder, runner, start = staged(session, state), session.host.runner, time.monotonic()
    state.trees = []
    for number, tree in enumerate(_sources(state)):
        archive, shared = f"trees/{number}.tar", tree.volume is not None
        trees.pack(runner, Path(tree.archive), folder / archive, changing=shared)
        state.trees.append(replace(tree, archive=archive))
    return round(time.monotonic() - start, 4)


def _sources(state: CaptureState) -> Iterator[Tree]:
    """Yield the trees to copy, `archive` being the folder on this host."""
    yield Tree(kind="rootfs", archive=state.upper, destination="/")
    for mount in spec_of(state)["mounts"]:
        if mount["destination"] == _SHM and mount.get("type") == "bind":
            yield Tree(kind="mount", archive=f"/proc/{state.pid}/root{_SHM}", destination=_SHM)
    yield from state.volumes


def _thaw_again(session: Session, state: CaptureState) -> None:
    _let_run(session, state)
    session.host.gpu.resume(state.pids)


def _tidy_up(session: Session, state: CaptureState) -> None:
    if not state.handover:
        _record(session, state)
    scratch.remove(session.host.paths, state.snapshot)
    storing.end(session, state)


def _record(
    session: Session,
    state: CaptureState,
    write: Callable[[Paths, jobs.Job], None] = jobs.save,
) -> None:
    """Let the job's record name the snapshot that is committed, and its store."""
    record = jobs.load(session.host.paths, state.job)
    if record:
        write(session.host.paths, _named(record, state))


def _named(record: jobs.Job, state: CaptureState) -> jobs.Job:
    alone = state.kind is Kind.FILES
    return replace(record, parent=state.snapshot, files_only=alone, store=state.store)


def _end(session: Session, state: CaptureState) -> None:
    """End what is frozen, without letting it run on for an instant.

    The record comes first: an attached `run` reads it when its container ends.
    """
    _record(session, state, jobs.let_go)
    with ThreadPoolExecutor(1) as beside:  # to free much memory takes time too
        beside.submit(scratch.remove, session.host.paths, state.snapshot)
        session.host.engine.remove(state.container)


PREPARE: Final[list[Phase[CaptureState]]] = [
    Phase("preflight", _preflight),
    Phase("prepare", _prepare, _discard),
]
SAVE_IMAGE: Final = Phase("save image", storing.save_image)
FREEZE: Final[list[Phase[CaptureState]]] = [
    Phase("suspend GPU", _suspend_gpu, _resume_gpu),
    Phase("freeze", _freeze, _thaw),
]
DUMP: Final = Phase("dump processes", _dump)
DUMP_AND_SEND: Final = Phase("dump processes", _dump_and_send)
COPY: Final = Phase("copy changed files", _copy_files)
THAW: Final = Phase("thaw", _thaw_again, _thaw)
STORE: Final = Phase("store", storing.store)
PUBLISH: Final = Phase("publish", storing.publish)
END: Final = Phase("end", _end)
TIDY_UP: Final = Phase("tidy up", _tidy_up)

LEAVE_RUNNING: Final[Transaction[CaptureState]] = Transaction(
    verb="checkpoint --leave-running",
    state=CaptureState,
    phases=[*PREPARE, SAVE_IMAGE, *FREEZE, DUMP, COPY, THAW, STORE, PUBLISH, TIDY_UP],
    commit="publish",
    committed=storing.published,
)
STOP: Final[Transaction[CaptureState]] = Transaction(
    verb="checkpoint",
    state=CaptureState,
    phases=[*PREPARE, SAVE_IMAGE, *FREEZE, DUMP_AND_SEND, COPY, STORE, PUBLISH, END, TIDY_UP],
    commit="publish",
    committed=storing.published,
)
STOP_FILES: Final[Transaction[CaptureState]] = Transaction(
    verb="checkpoint of files",
    state=CaptureState,
    phases=[*PREPARE, SAVE_IMAGE, FREEZE[-1], COPY, STORE, PUBLISH, END, TIDY_UP],
    commit="publish",
    committed=storing.published,
)
