"""The restore transaction: a snapshot becomes a running container.

The container is made by the engine like any other; the shim, which the engine calls as its OCI
runtime, restores the processes in place of starting new ones.
"""

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from spotrun.images import trees
from spotrun.images.durable import write_json
from spotrun.images.errors import (
    NameTaken,
    NotRestorable,
    RestoreFailed,
    SpotrunError,
)
from spotrun.images.manifest import Manifest, Tree
from spotrun.runtime import admission, criu, grammar, jobs, launcher, locks, transaction
from spotrun.runtime.engine import (
    CRIU_ANNOTATION,
    JOB_LABEL,
    RESTORE_ANNOTATION,
    TRANSACTION_LABEL,
    Container,
)
from spotrun.runtime.host import Host
from spotrun.runtime.transaction import Observer, Phase, Session, State, Transaction

_PROBE_SECONDS: Final = 0.2
"""How long a restored container is watched before it counts as alive."""


@dataclass(slots=True, kw_only=True)
class RestoreState(State):
    """What the phases of a restore know."""

    saved_as: str
    """The job's name in the snapshot; `job` is the one it goes on under."""
    snapshot: str
    store: str
    attempt: str
    """Unique to this restore: label of the container it makes."""
    container: str | None = None
    new_volumes: list[str] = field(default_factory=list)


def restore(
    host: Host,
    job: str,
    *,
    snapshot: str | None,
    name: str | None,
    store: str | None,
    observer: Observer,
) -> RestoreState:
    """Let a stored job go on here, under its own or another name."""
    name = jobs.check_name(name or job)
    with locks.hold(host.paths.locks, name, "restore", host.clock.now(), wait=False) as lock:
        record = jobs.load(host.paths, job)
        place = host.store(store or (record.store if record else None))
        manifest = place.find(jobs.check_name(job), snapshot)
        taken = host.engine.find(name)
        if taken:
            raise NameTaken(name=name, where="this host", container=taken.id[:12])
        state = RestoreState(
            job=name,
            saved_as=job,
            snapshot=manifest.snapshot,
            store=str(place.root),
            attempt=f"{manifest.snapshot}-{host.clock.now().timestamp():.6f}",
        )
        with transaction.failing_as(lambda error: _failed(state, error)):
            transaction.run(Session(host, lock, observer), RESTORE, state)
    return state


def _failed(state: RestoreState, error: Exception) -> RestoreFailed:
    log = getattr(error, "log", None)
    return RestoreFailed(snapshot=state.snapshot, reason=error, log=log)


def _manifest(session: Session, state: RestoreState) -> Manifest:
    return session.host.store(state.store).load(state.saved_as, state.snapshot)


def _folder(session: Session, state: RestoreState) -> Path:
    return session.host.store(state.store).fetch(_manifest(session, state))


def _fetch(session: Session, state: RestoreState) -> int:
    """Prove that every file of the snapshot is here."""
    _folder(session, state)
    return _manifest(session, state).bytes


def _check(session: Session, state: RestoreState) -> None:
    """Refuse what does not fit, before anything is made."""
    manifest, engine = _manifest(session, state), session.host.engine
    volumes = [tree.volume for tree in manifest.trees if tree.volume]
    state.new_volumes = [name for name in volumes if engine.volume(name) is None]
    reasons = admission.refusals(session.host, admission.of_manifest(manifest, state.job))
    if reasons:
        raise NotRestorable(snapshot=state.snapshot, where="this host", reason="; ".join(reasons))


def _get_image(session: Session, state: RestoreState) -> None:
    store = session.host.store(state.store)
    missing = admission.get_image(session.host, store, _manifest(session, state).image)
    if missing:
        raise NotRestorable(snapshot=state.snapshot, where="this host", reason=missing)


def _create(session: Session, state: RestoreState) -> None:
    """Make the container with the options it was first run with."""
    host, manifest = session.host, _manifest(session, state)
    launcher.install(host.paths)
    annotations = {
        RESTORE_ANNOTATION: str(_plan(session, state)),
        CRIU_ANNOTATION: str(host.paths.criu_config(state.job)),
    }
    labels = {JOB_LABEL: state.job, TRANSACTION_LABEL: state.attempt}
    arguments = [f"--name={state.job}", "--pull=never"]
    arguments += [f"--annotation={key}={value}" for key, value in annotations.items()]
    arguments += [f"--label={key}={value}" for key, value in labels.items()]
    arguments += launcher.log_options(manifest.run.options)
    arguments += [word for it in grammar.lasting(manifest.run.options) for word in it.words]
    arguments += [f"--env={variable}" for variable in manifest.oci_spec["process"]["env"]]
    state.container = host.engine.create(
        [*arguments, _image(host, manifest), *manifest.run.command]
    )


def _image(host: Host, manifest: Manifest) -> str:
    """Return the image's name if it means the same here, else its id."""
    named = host.engine.image(manifest.image.name)
    same = named is not None and named.id == manifest.image.id
    return manifest.image.name if same else manifest.image.id


def _remove(session: Session, state: RestoreState) -> None:
    """Remove what this attempt made, and nothing else."""
    host = session.host
    for container in host.engine.labelled(TRANSACTION_LABEL, state.attempt):
        host.engine.remove(container.id)
    for name in state.new_volumes:
        host.engine.remove_volume(name)
    _plan(session, state).unlink(missing_ok=True)
    if state.container:
        (host.paths.restored / state.container).unlink(missing_ok=True)


def _place_files(session: Session, state: RestoreState) -> int:
    """Write the changed files and the log so far, while nothing has them open."""
    host, folder, manifest = session.host, _folder(session, state), _manifest(session, state)
    container = _container(host, state)
    moved = 0
    for tree in manifest.trees:
        if tree.kind == "rootfs":
            trees.unpack(host.runner, folder / tree.archive, container.upper)
            moved += manifest.files[tree.archive]
    if manifest.log and container.log:
        container.log.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / manifest.log, container.log)
        moved += manifest.files[manifest.log]
    return moved


def _start(session: Session, state: RestoreState) -> int:
    """Let the engine start it, which the shim turns into a restore of the processes."""
    host, folder, manifest = session.host, _folder(session, state), _manifest(session, state)
    work = host.paths.run / "work" / state.job
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    config = host.paths.criu_config(state.job)
    config.write_text(criu.CONFIG)
    plan = {
        "images": str(folder / "criu"),
        "work": str(work),
        "criu_config": str(config),
        "mounts": [_mount(folder, tree) for tree in _carried(state, manifest)],
    }
    write_json(_plan(session, state), plan)
    try:
        host.engine.start(str(state.container))
    except SpotrunError as error:
        log = work / "restore.log"
        reason = criu.cause(log) or str(error)
        raise RestoreFailed(
            snapshot=state.snapshot, reason=reason, log=log if log.exists() else None
        ) from error
    return manifest.memory_bytes


def _carried(state: RestoreState, manifest: Manifest) -> list[Tree]:
    """Return the mounts to fill: not the volumes that were on this host before."""
    mounts = [tree for tree in manifest.trees if tree.kind == "mount"]
    return [tree for tree in mounts if not tree.volume or tree.volume in state.new_volumes]


def _mount(folder: Path, tree: Tree) -> dict[str, Any]:
    unpack = trees.unpack_command(folder / tree.archive)
    return {"destination": tree.destination, "unpack": unpack}


def _resume_gpu(session: Session, state: RestoreState) -> None:
    session.host.gpu.resume(session.host.oci.processes(str(state.container)))


def _probe(session: Session, state: RestoreState) -> None:
    """Prove that it still runs a moment later."""
    time.sleep(_PROBE_SECONDS)
    found = _container(session.host, state)
    if not found.running:
        reason = f"its processes ended at once, with status {found.exit_code}"
        raise RestoreFailed(snapshot=state.snapshot, reason=reason)


def _take_over(session: Session, state: RestoreState) -> None:
    """From here on this host has the job."""
    manifest = _manifest(session, state)
    record = jobs.Job(
        name=state.job,
        run=manifest.run,
        store=state.store,
        epoch=manifest.epoch + 1,
        parent=manifest.snapshot,
    )
    jobs.save(session.host.paths, record)


def _taken_over(session: Session, state: RestoreState) -> bool:
    record = jobs.load(session.host.paths, state.job)
    runs = any(c.running for c in session.host.engine.labelled(TRANSACTION_LABEL, state.attempt))
    return runs and record is not None and record.parent == state.snapshot


def _container(host: Host, state: RestoreState) -> Container:
    found = host.engine.find(str(state.container))
    if found is None:
        raise RestoreFailed(snapshot=state.snapshot, reason="its container has been removed")
    return found


def _plan(session: Session, state: RestoreState) -> Path:
    return session.host.paths.plans / f"{state.attempt}.json"


RESTORE: Final[Transaction[RestoreState]] = Transaction(
    verb="restore",
    state=RestoreState,
    phases=[
        Phase("fetch", _fetch),
        Phase("check", _check),
        Phase("get image", _get_image),
        Phase("create", _create, _remove),
        Phase("place files", _place_files),
        Phase("start", _start),
        Phase("resume GPU", _resume_gpu),
        Phase("probe", _probe),
        Phase("take over", _take_over),
    ],
    commit="take over",
    committed=_taken_over,
)
