"""The restore transaction: a snapshot becomes a running container.

The container is made by the engine like any other; the shim, which the engine calls as its OCI
runtime, restores the processes in place of starting new ones.
"""

import platform
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from spotrun.images import logformat, trees
from spotrun.images.address import Address
from spotrun.images.care import Care
from spotrun.images.durable import write_json
from spotrun.images.errors import (
    ImageMissing,
    NotRestorable,
    RestoreFailed,
    SpotrunError,
    StoreUnavailable,
)
from spotrun.images.manifest import Kind, Manifest, Tree
from spotrun.runtime import (
    admission,
    afresh,
    criu,
    facts,
    grammar,
    jobs,
    launcher,
    options,
    probe,
    processes,
    scratch,
)
from spotrun.runtime.engine import (
    CRIU_ANNOTATION,
    JOB_LABEL,
    RESTORE_ANNOTATION,
    TRANSACTION_LABEL,
    Container,
)
from spotrun.runtime.host import Host
from spotrun.runtime.transaction import Phase, Session, State, Transaction

_PROBE_SECONDS: Final = 0.1
"""How long a restored container is watched before it counts as alive."""


@dataclass(slots=True, kw_only=True)
class RestoreState(State):
    """What the phases of a restore know."""

    manifest: Manifest
    """Of the snapshot; its job may have another name than `job`, the one it goes on under."""
    kind: Kind = Kind.LIVE
    """Of a live one, too, only the files may be wanted."""
    store: Address
    epoch: int
    care: Care | None = None
    attempt: str
    """Unique to this restore: label of the container it makes."""
    container: str | None = None
    replaced: str | None = None
    """Id of the job's container that has ended, in whose place the new one comes."""
    new_volumes: list[str] = field(default_factory=list)
    started: str = ""
    """When it was about to run: ISO 8601."""

    @property
    def snapshot(self) -> str:
        """Its id."""
        return self.manifest.snapshot


def _folder(session: Session, state: RestoreState) -> Path:
    return scratch.place(session.host.paths, state.attempt)


def _check(session: Session, state: RestoreState) -> None:
    """Refuse what does not fit, before anything is made."""
    manifest, engine = state.manifest, session.host.engine
    volumes = [tree.volume for tree in manifest.trees if tree.volume]
    state.new_volumes = [name for name in volumes if engine.volume(name) is None]
    demand = admission.of_manifest(manifest, state.job)
    if state.kind is Kind.FILES:  # a program that starts anew needs nothing that is like there
        here = facts.gather(session.host.runner, engine.version())
        demand = replace(demand, source=replace(here, arch=manifest.host.arch), memory=0)
    reasons = admission.refusals(session.host, demand, making_way=state.replaced)
    if reasons:
        raise NotRestorable(snapshot=state.snapshot, where="this host", reason="; ".join(reasons))


def _get_image(session: Session, state: RestoreState) -> None:
    store = session.host.store(state.store)
    missing = admission.get_image(session.host, store, state.manifest.image)
    if missing:
        raise ImageMissing(snapshot=state.snapshot, where="this host", reason=missing)


def _fetch(session: Session, state: RestoreState) -> int:
    """Bring the files here; those of the root file system go to their place meanwhile."""
    host, store, manifest = session.host, session.host.store(state.store), state.manifest
    live = state.kind is Kind.LIVE
    images = manifest.memory_bytes if live else 0
    folder = scratch.make(host.paths, state.attempt, images=images, memory=2 * images)
    store.read(state.attempt, state.job, platform.node())
    memory = {path for path in manifest.files if path.startswith("criu/")}
    others = manifest.files.keys() - memory
    opened, tell = store.opened(manifest), session.observer.progress
    with ThreadPoolExecutor(1) as beside:
        moved = opened.fetch(folder, others, tell)
        placing = beside.submit(_place_files, session, state)
        if live:
            moved += opened.fetch(folder, memory, tell)
        placing.result()
    with suppress(StoreUnavailable):  # then the hold lapses by itself
        store.end(state.attempt)
    return moved


def _discard(session: Session, state: RestoreState) -> None:
    scratch.remove(session.host.paths, state.attempt)
    with suppress(SpotrunError):  # then the hold lapses by itself
        session.host.store(state.store).end(state.attempt)


def _set_aside(session: Session, state: RestoreState) -> None:
    """Free the name from the container that has ended."""
    if state.replaced:
        session.host.engine.rename(state.replaced, f"{state.job}-{state.attempt}")


def _put_back(session: Session, state: RestoreState) -> None:
    found = session.host.engine.find(state.replaced) if state.replaced else None
    if found and found.name != state.job:
        session.host.engine.rename(found.id, state.job)


def _create(session: Session, state: RestoreState) -> None:
    """Make the container with the options it was first run with."""
    host, manifest = session.host, state.manifest
    launcher.install(host.paths)
    annotations = {
        JOB_LABEL: state.job,
        CRIU_ANNOTATION: str(host.paths.criu_config(state.job)),
    }
    if state.kind is Kind.LIVE:
        annotations[RESTORE_ANNOTATION] = str(_plan(session, state))
    labels = {JOB_LABEL: state.job, TRANSACTION_LABEL: state.attempt}
    arguments = [f"--name={state.job}", "--pull=never", *_made_up(manifest)]
    arguments += options.again(host.engine, manifest.run.options)
    arguments += [f"--env={variable}" for variable in _environment(manifest)]
    arguments += [f"--annotation={key}={value}" for key, value in annotations.items()]
    arguments += [f"--label={key}={value}" for key, value in labels.items()]
    entry, command = _command(state)
    state.container = host.engine.create([*arguments, *entry, _image(host, manifest), *command])


def _command(state: RestoreState) -> tuple[list[str], list[str]]:
    """Return the entry point, if it is another one, and the command."""
    other = state.care.resume_command if state.care else None
    if other is None or state.kind is Kind.LIVE:
        return [], list(state.manifest.run.command)
    return ["--entrypoint=sh"], ["-c", other]


def _made_up(manifest: Manifest) -> list[str]:
    """Keep the host name, which the processes know, and an engine would make up anew."""
    spec, network = manifest.oci_spec, grammar.value(manifest.run.options, "--network") or ""
    own = {"type": "uts"} in spec["linux"]["namespaces"] and not network.startswith("container:")
    return [f"--hostname={spec['hostname']}"] if own and spec.get("hostname") else []


def _environment(manifest: Manifest) -> list[str]:
    """Return the variables, but for those that any engine adds itself."""
    spec = manifest.oci_spec
    added = {f"HOSTNAME={spec.get('hostname')}"}
    added |= {"TERM=xterm"} if spec["process"].get("terminal") else set()
    return [variable for variable in spec["process"]["env"] if variable not in added]


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
        processes.end_all(container.id)
    for name in state.new_volumes:
        host.engine.remove_volume(name)
    _plan(session, state).unlink(missing_ok=True)
    if state.container:
        (host.paths.restored / state.container).unlink(missing_ok=True)


def _place_files(session: Session, state: RestoreState) -> None:
    """Write the changed files and the log so far, while nothing has them open."""
    host, folder, manifest = session.host, _folder(session, state), state.manifest
    container = _container(host, state)
    for tree in manifest.trees:
        if tree.kind == "rootfs":
            trees.unpack(host.runner, folder / tree.archive, container.upper)
    if manifest.log and container.log:
        container.log.path.parent.mkdir(parents=True, exist_ok=True)
        logformat.give(folder / manifest.log, container.log)


def _fill_volumes(session: Session, state: RestoreState) -> None:
    """Give new volumes what the snapshot has, in the place of what the image has."""
    host, folder = session.host, _folder(session, state)
    places = {it.destination: it.source for it in _container(host, state).mounts if it.volume}
    for tree in _carried(state, state.manifest):
        if place := places.get(tree.destination):
            trees.empty(place)
            trees.unpack(host.runner, folder / tree.archive, place)


def _start_afresh(session: Session, state: RestoreState) -> None:
    """Let the engine start its command anew, on the files of the snapshot."""
    host = session.host
    state.started = host.clock.now().isoformat()
    host.paths.criu_config(state.job).write_text(criu.config())
    with afresh.wanted(host.paths, [state.job]):
        host.engine.start(str(state.container))


def _start(session: Session, state: RestoreState) -> int:
    """Let the engine start it, which the shim turns into a restore of the processes."""
    host, folder, manifest = session.host, _folder(session, state), state.manifest
    work = host.paths.run / "work" / state.job
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    config = host.paths.criu_config(state.job)
    config.write_text(criu.config())
    linux = manifest.oci_spec["linux"]
    plan = {
        "images": str(folder / "criu"),
        "work": str(work),
        "criu_config": str(config),
        "mounts": manifest.oci_spec["mounts"],
        "masked_paths": linux.get("maskedPaths", []),
        "readonly_paths": linux.get("readonlyPaths", []),
        "sysctls": linux.get("sysctl", {}),
        "trees": [_tree(folder, tree) for tree in _carried(state, manifest)],
    }
    write_json(_plan(session, state), plan)
    state.started = host.clock.now().isoformat()
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


def _tree(folder: Path, tree: Tree) -> dict[str, Any]:
    unpack = trees.unpack_command(folder / tree.archive)
    return {"destination": tree.destination, "unpack": unpack}


def _resume_gpu(session: Session, state: RestoreState) -> None:
    session.host.gpu.resume(session.host.oci.processes(str(state.container)))


def _probe(session: Session, state: RestoreState) -> None:
    """Prove that it still runs a moment later, and is well; its images are not needed any more."""
    with ThreadPoolExecutor(1) as beside:
        beside.submit(scratch.remove, session.host.paths, state.attempt)
        time.sleep(_PROBE_SECONDS)
    found = _container(session.host, state)
    if not found.running:
        reason = f"its processes ended at once, with status {found.exit_code}"
        raise RestoreFailed(snapshot=state.snapshot, reason=reason)
    if not probe.lives(session.host, found):
        reason = "it is there, but none of its processes waits in a system call or runs"
        raise RestoreFailed(snapshot=state.snapshot, reason=reason)
    wanted, since = state.care and state.care.probe, datetime.fromisoformat(state.started)
    if wanted:
        session.observer.note(f"it runs, and is well when its probe {wanted!r} holds")
    if wanted and not probe.holds(session.host, found, wanted, since):
        reason = f"it runs, and its probe {wanted!r} does not hold"
        raise RestoreFailed(snapshot=state.snapshot, reason=reason)


def _take_over(session: Session, state: RestoreState) -> None:
    """From here on this host has the job."""
    manifest = state.manifest
    record = jobs.Job(
        name=state.job,
        run=manifest.run,
        store=state.store,
        epoch=state.epoch,
        parent=manifest.snapshot,
        files_only=manifest.kind is Kind.FILES,
        engine=state.engine,
        care=state.care,
    )
    jobs.save(session.host.paths, record)


def _taken_over(session: Session, state: RestoreState) -> bool:
    record = jobs.load(session.host.paths, state.job)
    runs = any(c.running for c in session.host.engine.labelled(TRANSACTION_LABEL, state.attempt))
    return runs and record is not None and record.parent == state.snapshot


def _tidy_up(session: Session, state: RestoreState) -> None:
    _discard(session, state)
    if state.replaced:
        session.host.engine.remove(state.replaced)


def _container(host: Host, state: RestoreState) -> Container:
    found = host.engine.find(str(state.container))
    if found is None:
        raise RestoreFailed(snapshot=state.snapshot, reason="its container has been removed")
    return found


def _plan(session: Session, state: RestoreState) -> Path:
    return session.host.paths.plans / f"{state.attempt}.json"


_BEGIN: Final[list[Phase[RestoreState]]] = [
    Phase("check", _check),
    Phase("get image", _get_image),
    Phase("set aside", _set_aside, _put_back),
    Phase("create", _create, _remove),
    Phase("fetch", _fetch, _discard),
]
_FINISH: Final[list[Phase[RestoreState]]] = [
    Phase("probe", _probe),
    Phase("take over", _take_over),
    Phase("tidy up", _tidy_up),
]
RESTORE: Final[Transaction[RestoreState]] = Transaction(
    verb="restore",
    state=RestoreState,
    phases=[*_BEGIN, Phase("start", _start), Phase("resume GPU", _resume_gpu), *_FINISH],
    commit="take over",
    committed=_taken_over,
)
RESTORE_FILES: Final[Transaction[RestoreState]] = Transaction(
    verb="restore of files",
    state=RestoreState,
    phases=[
        *_BEGIN,
        Phase("fill volumes", _fill_volumes),
        Phase("start afresh", _start_afresh),
        *_FINISH,
    ],
    commit="take over",
    committed=_taken_over,
)
