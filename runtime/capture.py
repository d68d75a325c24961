"""The capture transaction: a running container becomes a snapshot.

Memory and files are of one instant: the container stays frozen from before the dump until its
files are copied. It is ended only after the snapshot is committed, so a failure anywhere leaves
it running.
"""

import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NoReturn

from spotrun.images import imagebox, trees
from spotrun.images.errors import (
    CaptureFailed,
    JobNotFound,
    NotCapturable,
    SpotrunError,
    StoreUnavailable,
)
from spotrun.images.manifest import (
    ImageRef,
    Kind,
    Manifest,
    RunSpec,
    Tree,
    new_snapshot_id,
)
from spotrun.images.opening import Address
from spotrun.images.recipe import Content
from spotrun.images.store import Push, Store, file_sizes
from spotrun.runtime import (
    doctor,
    facts,
    fitness,
    jobs,
    locks,
    preflight,
    scratch,
    transaction,
    unsent,
)
from spotrun.runtime.engine import Container
from spotrun.runtime.host import Host
from spotrun.runtime.oci import DumpOptions
from spotrun.runtime.processes import memory_of, wait_for_output
from spotrun.runtime.transaction import Observer, Phase, Session, State, Transaction
from spotrun.runtime.watch import watched

_SHM: Final = "/dev/shm"  # noqa: S108 # a path in the container
_MARGIN: Final = 64 << 20
"""Bytes that stay free beside the memory image: metadata and changed files."""


@dataclass(slots=True, kw_only=True)
class CaptureState(State):
    """What the phases of a capture know."""

    container: str
    """Its id."""
    snapshot: str
    store: Address
    left_running: bool
    handover: bool = False
    image: ImageRef
    run: RunSpec
    epoch: int
    parent: str | None
    pid: int
    """Of the container's first process."""
    bundle: str
    upper: str
    log: str | None
    trouble: str = ""
    """Why the store cannot take the snapshot, once that is known."""
    volumes: list[Tree]
    """Trees to be made of volumes, `archive` still being the host's folder."""
    pids: list[int] = field(default_factory=list)
    memory: int = 0
    """Bytes of them before the freeze: to ask takes time that a frozen job does not have."""
    trees: list[Tree] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    content: Content | None = None
    """Where the files are, once they are stored."""


def checkpoint(
    host: Host, job: str, *, leave_running: bool, store: Address | None, observer: Observer
) -> CaptureState:
    """Save a running job; unless left running it is ended once the snapshot is committed."""
    with locks.hold(host.paths.locks, job, "checkpoint", host.clock.now(), wait=False) as lock:
        state = begin(host, job, store=store, left_running=leave_running)
        kind = LEAVE_RUNNING if leave_running else STOP
        with transaction.failing_as(lambda error: failed(job, error)):
            transaction.run(Session(host, lock, observer), kind, state)
    return state


def failed(job: str, error: Exception) -> CaptureFailed:
    """Return the error for a capture that was taken back."""
    return CaptureFailed(job=job, reason=error, log=getattr(error, "log", None))


def begin(host: Host, job: str, *, store: Address | None, left_running: bool) -> CaptureState:
    """Look the job up and return the state from which its phases start."""
    container, record = _running(host, job), jobs.load(host.paths, job)
    if record is None:
        raise JobNotFound(job=job)
    if store:
        _change_store(host, record, store)
    image = host.engine.image(container.image_id)
    if image is None:
        raise NotCapturable(job=job, reason="its image has been removed from this host")
    return CaptureState(
        job=job,
        container=container.id,
        snapshot=new_snapshot_id(host.clock.now(), after=record.parent),
        store=store or record.store,
        left_running=left_running,
        image=replace(image, name=record.run.image),
        run=record.run,
        epoch=record.epoch,
        parent=record.parent,
        pid=container.pid,
        bundle=str(container.bundle),
        upper=str(container.upper),
        log=str(container.log) if container.log else None,
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


def spec_of(state: CaptureState) -> dict[str, Any]:
    """Return the container's OCI specification, as the OCI runtime was given it."""
    spec: dict[str, Any] = json.loads((Path(state.bundle) / "config.json").read_bytes())
    return spec


def _running(host: Host, job: str) -> Container:
    found = host.engine.find(jobs.check_name(job))
    if found is None or found.job != job:
        raise JobNotFound(job=job)
    if not found.running:
        raise NotCapturable(job=job, reason=f"its container is {found.status}, not running")
    if found.status == "paused" or found.bundle is None:
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
    doctor.require(doctor.examine(host.runner, host.engine.version, thorough=False))
    state.pids = host.oci.processes(state.container)
    preflight.specification(state.job, spec_of(state))
    preflight.examine(state.job, state.pids)
    state.memory = memory_of(state.pids)
    needed = state.memory + _MARGIN
    try:
        store = host.store(state.store)
    except StoreUnavailable as error:
        _note_trouble(host, state, error)
    else:
        _room(state, store)
    if (free := fitness.free_disk(host.paths.scratch)) < needed:
        reason = f"its memory needs {fitness.size(needed)}, {host.paths.scratch} has"
        raise NotCapturable(job=state.job, reason=f"{reason} {fitness.size(free)} free")


def _room(state: CaptureState, store: Store) -> None:
    """Refuse to fill a store to the brim; how much of the job it has already is not known yet."""
    free = store.backend.free()
    if free is not None and free < _MARGIN:
        reason = f"{store} has {fitness.size(free)} free; {fitness.size(_MARGIN)} must be"
        raise NotCapturable(job=state.job, reason=reason)


def _note_trouble(host: Host, state: CaptureState, error: StoreUnavailable) -> None:
    """Go on nevertheless: the snapshot is kept on this host, unless that is what is in trouble."""
    if state.store == host.own_store:
        raise error
    state.trouble = str(error)


def _prepare(session: Session, state: CaptureState) -> None:
    """Make room for the files, and learn what the store has of the job already."""
    needed = state.memory + _MARGIN
    scratch.make(session.host.paths, state.snapshot, images=needed, memory=needed)
    if not state.trouble:
        try:
            _push(session, state)
        except StoreUnavailable as error:
            _note_trouble(session.host, state, error)


def _discard(session: Session, state: CaptureState) -> None:
    scratch.remove(session.host.paths, state.snapshot)
    if not state.trouble:  # else the hold lapses by itself
        with suppress(SpotrunError):
            session.host.store(state.store).abandon(state.snapshot)


def _push(session: Session, state: CaptureState) -> Push:
    store = session.host.store(state.store)
    return store.begin(state.snapshot, state.job, platform.node())


def _save_image(session: Session, state: CaptureState) -> int:
    """Keep an image that no registry has in the store, once."""
    if state.trouble or state.image.digest:
        return 0
    host, store, push = session.host, session.host.store(state.store), _push(session, state)
    if push.image(state.image):
        return 0
    folder = _staged(session, state) / "image"
    host.engine.save_image(state.image, folder)
    tell = session.observer.progress
    sent = imagebox.put(store, push, state.image, folder, threads=_share(host), tell=tell)
    shutil.rmtree(folder)
    return sent


def _freeze(session: Session, state: CaptureState) -> None:
    if session.host.oci.status(state.container) not in {"running", "paused"}:
        raise NotCapturable(job=state.job, reason="it has ended in the meantime")
    session.host.oci.freeze(state.container)
    state.pids = session.host.oci.processes(state.container)


def _thaw(session: Session, state: CaptureState) -> None:
    if session.host.oci.status(state.container) is not None:
        session.host.oci.thaw(state.container)


def _suspend_gpu(session: Session, state: CaptureState) -> None:
    session.host.gpu.suspend(state.job, state.pids)


def _resume_gpu(session: Session, state: CaptureState) -> None:
    session.host.gpu.resume(state.pids)


def _dump(session: Session, state: CaptureState) -> int:
    staged = _staged(session, state)
    options = DumpOptions(
        images=staged / "criu",
        work=staged / "work",
        criu_config=session.host.paths.criu_config(state.job),
    )
    try:
        with watched(options.images, state.memory, session.observer.progress):
            session.host.oci.dump(state.container, options, pass_fds=(session.lock.fd,))
    except SpotrunError as error:
        error.log = _keep_log(session.host, state, error.log)
        raise
    return sum(file_sizes(staged / "criu").values())


def _keep_log(host: Host, state: CaptureState, log: Path | None) -> Path | None:
    """Save CRIU's log from the staged folder, which is about to be discarded."""
    if log is None or not log.exists():
        return None
    kept = host.paths.state / f"{state.job}-dump.log"
    shutil.copyfile(log, kept)
    return kept


def _copy_files(session: Session, state: CaptureState) -> int:
    """Copy what CRIU does not: changed files, volumes, /dev/shm and the log so far."""
    staged = _staged(session, state)
    runner, moved = session.host.runner, 0
    state.trees = []
    for number, tree in enumerate(_sources(state)):
        archive, shared = f"trees/{number}.tar", tree.volume is not None
        moved += trees.pack(runner, Path(tree.archive), staged / archive, changing=shared)
        state.trees.append(replace(tree, archive=archive))
    if state.log:
        wait_for_output(state.pid)
        shutil.copyfile(state.log, staged / "log")
        moved += (staged / "log").stat().st_size
    return moved


def _sources(state: CaptureState) -> Iterator[Tree]:
    """Yield the trees to copy, `archive` being the folder on this host."""
    yield Tree(kind="rootfs", archive=state.upper, destination="/")
    for mount in spec_of(state)["mounts"]:
        if mount["destination"] == _SHM and "bind" in mount.get("options", ()):
            yield Tree(kind="mount", archive=mount["source"], destination=_SHM)
    yield from state.volumes


def _thaw_again(session: Session, state: CaptureState) -> None:
    session.host.oci.thaw(state.container)
    session.host.gpu.resume(state.pids)


def _store(session: Session, state: CaptureState) -> int:
    """Send the files, of which nobody sees anything yet."""
    staged = _staged(session, state)
    state.files = file_sizes(staged)
    threads = _share(session.host) if state.left_running else None
    with _kept_if_not_taken(session, state):
        push, tell = _push(session, state), session.observer.progress
        state.content = push.store(staged, state.files, threads=threads, tell=tell)
    return push.moved


@contextmanager
def _kept_if_not_taken(session: Session, state: CaptureState) -> Iterator[None]:
    """Keep the snapshot on this host if its store does not take it, and raise Unsent."""
    if state.trouble:
        _keep(session, state, state.trouble)
    try:
        yield
    except StoreUnavailable as error:
        _note_trouble(session.host, state, error)
        _keep(session, state, state.trouble)


def _keep(session: Session, state: CaptureState, reason: str) -> NoReturn:
    staged, manifest = _staged(session, state), _manifest(session, state)
    unsent.keep(session.host, staged, manifest, state.store, reason)


def _share(host: Host) -> int:
    """Return how many threads may work while the job does."""
    return host.threads or max(1, (os.cpu_count() or 1) // 2)


def _manifest(session: Session, state: CaptureState) -> Manifest:
    host = session.host
    return Manifest(
        snapshot=state.snapshot,
        job=state.job,
        created=host.clock.now().isoformat(timespec="milliseconds"),
        kind=Kind.LIVE,
        epoch=state.epoch,
        parent=state.parent,
        image=state.image,
        run=state.run,
        host=facts.gather(host.runner, host.engine.version()),
        oci_spec=spec_of(state),
        trees=tuple(state.trees),
        log="log" if state.log else None,
        files=state.files,
        content=state.content or Content((), ()),
        phases=tuple(state.records),
        left_running=state.left_running,
        handover=state.handover,
    )


def _publish(session: Session, state: CaptureState) -> int:
    """Commit the snapshot: from here on the job is safe."""
    manifest = _manifest(session, state)
    with _kept_if_not_taken(session, state):
        _push(session, state).publish(manifest)
    return manifest.bytes


def _published(session: Session, state: CaptureState) -> bool:
    """Ask the store; if it cannot tell, the job goes on, which is right in either case."""
    try:
        return session.host.store(state.store).has(state.job, state.snapshot)
    except SpotrunError:
        return False


def _tidy_up(session: Session, state: CaptureState) -> None:
    if not state.handover:
        _record(session, state)
    scratch.remove(session.host.paths, state.snapshot)
    with suppress(SpotrunError):  # then the hold lapses by itself
        session.host.store(state.store).end(state.snapshot)


def _record(session: Session, state: CaptureState, **changes: Any) -> None:  # noqa: ANN401 # any field
    """Let the job's record name the snapshot that is committed, and its store."""
    record = jobs.load(session.host.paths, state.job)
    if record:
        saved = replace(record, parent=state.snapshot, store=state.store, **changes)
        jobs.save(session.host.paths, saved)


def _end(session: Session, state: CaptureState) -> None:
    """End what is frozen, without letting it run on for an instant.

    The record comes first: an attached `run` reads it when its container ends.
    """
    _record(session, state, place=jobs.Place.STORED)
    session.host.engine.remove(state.container)


def _staged(session: Session, state: CaptureState) -> Path:
    return scratch.place(session.host.paths, state.snapshot)


PREPARE: Final[list[Phase[CaptureState]]] = [
    Phase("preflight", _preflight),
    Phase("prepare", _prepare, _discard),
]
SAVE_IMAGE: Final = Phase("save image", _save_image)
FREEZE_AND_COPY: Final[list[Phase[CaptureState]]] = [
    Phase("suspend GPU", _suspend_gpu, _resume_gpu),
    Phase("freeze", _freeze, _thaw),
    Phase("dump processes", _dump),
    Phase("copy changed files", _copy_files),
]
THAW: Final = Phase("thaw", _thaw_again, _thaw)
STORE: Final = Phase("store", _store)
PUBLISH: Final = Phase("publish", _publish)
END: Final = Phase("end", _end)
TIDY_UP: Final = Phase("tidy up", _tidy_up)

LEAVE_RUNNING: Final[Transaction[CaptureState]] = Transaction(
    verb="checkpoint --leave-running",
    state=CaptureState,
    phases=[*PREPARE, SAVE_IMAGE, *FREEZE_AND_COPY, THAW, STORE, PUBLISH, TIDY_UP],
    commit="publish",
    committed=_published,
)
STOP: Final[Transaction[CaptureState]] = Transaction(
    verb="checkpoint",
    state=CaptureState,
    phases=[*PREPARE, SAVE_IMAGE, *FREEZE_AND_COPY, STORE, PUBLISH, END, TIDY_UP],
    commit="publish",
    committed=_published,
)
