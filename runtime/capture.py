"""The capture transaction: a running container becomes a snapshot.

Memory and files are of one instant: the container stays frozen from before the dump until its
files are copied. It is ended only after the snapshot is committed, so a failure anywhere leaves
it running.
"""

import fcntl
import json
import shutil
import struct
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from spotrun.images import imagebox, trees
from spotrun.images.errors import CaptureFailed, JobNotFound, NotCapturable, SpotrunError
from spotrun.images.manifest import (
    ImageRef,
    Kind,
    Manifest,
    RunSpec,
    Tree,
    new_snapshot_id,
)
from spotrun.images.store import file_sizes
from spotrun.runtime import doctor, facts, jobs, locks, preflight, transaction
from spotrun.runtime.engine import Container
from spotrun.runtime.fitness import free_disk
from spotrun.runtime.host import Host
from spotrun.runtime.oci import DumpOptions
from spotrun.runtime.transaction import Observer, Phase, Session, State, Transaction

_SHM: Final = "/dev/shm"  # noqa: S108 # a path in the container
_DRAIN_SECONDS: Final = 2.0
_MARGIN: Final = 64 << 20
"""Bytes that stay free in the store beside the memory image: metadata and changed files."""


@dataclass(slots=True, kw_only=True)
class CaptureState(State):
    """What the phases of a capture know."""

    container: str
    """Its id."""
    snapshot: str
    store: str
    left_running: bool
    handover: bool = False
    keep_image: bool = True
    """Whether the image must be had from the store when no registry has it."""
    image: ImageRef
    run: RunSpec
    epoch: int
    parent: str | None
    pid: int
    """Of the container's first process."""
    bundle: str
    upper: str
    log: str | None
    volumes: list[Tree]
    """Trees to be made of volumes, `archive` still being the host's folder."""
    pids: list[int] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)


def checkpoint(
    host: Host, job: str, *, leave_running: bool, store: str | None, observer: Observer
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


def begin(host: Host, job: str, *, store: str | None, left_running: bool) -> CaptureState:
    """Look the job up and return the state from which its phases start."""
    container, record = _running(host, job), jobs.load(host.paths, job)
    if record is None:
        raise JobNotFound(job=job)
    image = host.engine.image(container.image_id)
    if image is None:
        raise NotCapturable(job=job, reason="its image has been removed from this host")
    return CaptureState(
        job=job,
        container=container.id,
        snapshot=new_snapshot_id(host.clock.now()),
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


def spec_of(state: CaptureState) -> dict[str, Any]:
    """Return the container's OCI specification, as the OCI runtime was given it."""
    spec: dict[str, Any] = json.loads((Path(state.bundle) / "config.json").read_bytes())
    return spec


def memory_of(pids: list[int]) -> int:
    """Return the resident memory of processes, in bytes, shared pages counted once each."""
    return sum(_pss(pid) for pid in pids)


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
    store = host.store(state.store)
    store.prepare()
    needed, free = memory_of(state.pids) + _MARGIN, free_disk(store.root)
    if needed > free:
        reason = f"its memory needs {needed >> 20} MiB, {store} has {free >> 20} MiB free"
        raise NotCapturable(job=state.job, reason=reason)


def _prepare(session: Session, state: CaptureState) -> None:
    staged = session.host.store(state.store).stage(state.snapshot)
    for folder in ("criu", "work", "trees"):
        (staged / folder).mkdir()


def _discard(session: Session, state: CaptureState) -> None:
    session.host.store(state.store).discard(state.snapshot)


def _save_image(session: Session, state: CaptureState) -> int:
    """Keep an image that no registry has beside the snapshots, once."""
    store = session.host.store(state.store)
    if not state.keep_image or state.image.digest or imagebox.has(store, state.image):
        return 0
    folder = _staged(session, state) / "image"
    session.host.engine.save_image(state.image, folder)
    return imagebox.put(store, state.image, folder)


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
        archive = f"trees/{number}.tar"
        moved += trees.pack(runner, Path(tree.archive), staged / archive)
        state.trees.append(replace(tree, archive=archive))
    if state.log:
        _wait_for_output(state.pid)
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


def _wait_for_output(pid: int) -> None:
    """Wait until the engine has read what the frozen process wrote into its output pipes."""
    for fd in (1, 2):
        path = Path(f"/proc/{pid}/fd/{fd}")
        if not path.is_fifo():
            continue
        with path.open("rb", buffering=0) as pipe:
            deadline = time.monotonic() + _DRAIN_SECONDS
            while _unread(pipe.fileno()) and time.monotonic() < deadline:
                time.sleep(0.002)


def _unread(fd: int) -> int:
    """Return the bytes that wait in a pipe (ioctl_pipe(2))."""
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0])


def _thaw_again(session: Session, state: CaptureState) -> None:
    session.host.oci.thaw(state.container)
    session.host.gpu.resume(state.pids)


def _publish(session: Session, state: CaptureState) -> int:
    """Commit the snapshot: from here on the job is safe."""
    host = session.host
    staged = _staged(session, state)
    manifest = Manifest(
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
        files=file_sizes(staged),
        phases=tuple(state.records),
        left_running=state.left_running,
        handover=state.handover,
    )
    host.store(state.store).publish(staged, manifest)
    record = jobs.load(host.paths, state.job)
    if record:
        jobs.save(host.paths, replace(record, parent=state.snapshot, store=state.store))
    return manifest.bytes


def _published(session: Session, state: CaptureState) -> bool:
    return session.host.store(state.store).has(state.job, state.snapshot)


def _end(session: Session, state: CaptureState) -> None:
    """End what is frozen, without letting it run on for an instant.

    The record comes first: an attached `run` reads it when its container ends.
    """
    record = jobs.load(session.host.paths, state.job)
    if record:
        jobs.save(session.host.paths, replace(record, place=jobs.Place.STORED))
    session.host.engine.remove(state.container)


def _staged(session: Session, state: CaptureState) -> Path:
    return session.host.store(state.store).staging / state.snapshot


def _pss(pid: int) -> int:
    """Return the proportional share of memory of a process, in bytes; 0: it has gone."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    sizes = dict(line.split(":", 1) for line in rollup.splitlines()[1:])
    return int(sizes["Pss"].split()[0]) << 10


PREPARE: Final[list[Phase[CaptureState]]] = [
    Phase("preflight", _preflight),
    Phase("prepare", _prepare, _discard),
    Phase("save image", _save_image),
]
FREEZE_AND_COPY: Final[list[Phase[CaptureState]]] = [
    Phase("suspend GPU", _suspend_gpu, _resume_gpu),
    Phase("freeze", _freeze, _thaw),
    Phase("dump processes", _dump),
    Phase("copy changed files", _copy_files),
]
THAW: Final = Phase("thaw", _thaw_again, _thaw)
PUBLISH: Final = Phase("publish", _publish)
END: Final = Phase("end", _end)

LEAVE_RUNNING: Final[Transaction[CaptureState]] = Transaction(
    verb="checkpoint --leave-running",
    state=CaptureState,
    phases=[*PREPARE, *FREEZE_AND_COPY, THAW, PUBLISH],
    commit="publish",
    committed=_published,
)
STOP: Final[Transaction[CaptureState]] = Transaction(
    verb="checkpoint",
    state=CaptureState,
    phases=[*PREPARE, *FREEZE_AND_COPY, PUBLISH, END],
    commit="publish",
    committed=_published,
)
