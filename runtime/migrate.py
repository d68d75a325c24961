"""The migration of a running job to another host: a capture here, a restore there.

The source stays frozen until the job runs on the target and is ended only then; if anything
fails before, it goes on as if nothing had been.
"""

import shutil
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from spotrun.images import imagebox
from spotrun.images.errors import (
    NotRestorable,
    RestoreFailed,
    TargetUnreachable,
)
from spotrun.images.manifest import PhaseRecord, encode
from spotrun.images.pack import key_of
from spotrun.images.store import Store, file_sizes
from spotrun.runtime import (
    admission,
    capture,
    facts,
    fence,
    jobs,
    locks,
    scratch,
    supervising,
    tenure,
    transaction,
    watch,
)
from spotrun.runtime.captured import CaptureState
from spotrun.runtime.host import Host
from spotrun.runtime.peer import MANIFEST
from spotrun.runtime.processes import memory_of
from spotrun.runtime.remote import Answer, Remote
from spotrun.runtime.transaction import Observer, Phase, Session, Transaction


@dataclass(slots=True, kw_only=True)
class MigrateState(CaptureState):
    """What the phases of a migration know."""

    target: str
    shared: bool = False
    """Whether the target uses the same store, so that no snapshot need be sent."""
    send_image: bool = False
    """Whether the target can have the image from here only."""
    layers: list[str] = field(default_factory=list)
    """Digests of layers that the target has."""
    leased: bool = False
    """Whether this host had a lease of the job."""
    confirmed: bool = False
    """Whether the target has said that the job runs there."""
    there: list[PhaseRecord] = field(default_factory=list)
    """Phases of the restore on the target."""


def migrate(host: Host, job: str, *, target: str, observer: Observer) -> MigrateState:
    """Move a running job to another host."""
    Remote(host.runner, target)
    host = host.of(job)
    with locks.hold(host.paths.locks, job, "migrate", host.clock.now(), wait=False) as lock:
        begun = capture.begin(host, job, store=None, left_running=False)
        fields = {name: getattr(begun, name) for name in CaptureState.__dataclass_fields__}
        state = MigrateState(**{**fields, "handover": True}, target=target)
        with transaction.failing_as(lambda error: capture.failed(job, error)):
            transaction.run(Session(host, lock, observer), MIGRATE, state)
    if not state.confirmed:
        reason = (
            f"it stopped answering while it restored; if {job!r} does not run there,"
            f" `spotrun restore {job}` goes on with it here"
        )
        raise TargetUnreachable(target=target, reason=reason)
    return state


def _remote(session: Session, state: MigrateState) -> Remote:
    return Remote(session.host.runner, state.target)


def _check_target(session: Session, state: MigrateState) -> None:
    """Ask the target whether the job may come, before anything is touched here."""
    host = session.host
    volumes = [admission.VolumeDemand(t.volume, t.identity) for t in state.volumes if t.volume]
    memory = memory_of(host.oci.processes(state.container))
    demand = admission.Demand(
        name=state.job,
        image=state.image,
        source=facts.gather(host.runner, host.engine.version()),
        memory=memory,
        disk=memory,
        binds=admission.user_binds(state.run.options),
        volumes=tuple(volumes),
        store=None if state.store == host.own_store else state.store,
        store_id=host.store(state.store).id,
    )
    answer = _remote(session, state).call("peer", "admit", stdin=msgspec.json.encode(demand))
    if answer.status != "success":
        raise TargetUnreachable(target=state.target, reason=answer.reason)
    if answer.data["refusals"]:
        reason = "; ".join(answer.data["refusals"])
        raise NotRestorable(snapshot=f"of {state.job}", where=state.target, reason=reason)
    state.leased = tenure.of(host.paths, state.job) is not None
    _choose_store(host, state, shared=answer.data["sees_store"])
    state.send_image = not answer.data["has_image"] and not state.image.digest
    state.layers = answer.data["layers"]


def _choose_store(host: Host, state: MigrateState, *, shared: bool) -> None:
    """Use the own stores of both hosts if they do not share the job's, and it is in plain."""
    state.shared = shared
    if shared:
        return
    if state.leased:
        reason = (
            f"the job comes back by itself from {state.store.url}, which {state.target} does not"
            " see; use a store that both reach"
        )
        raise NotRestorable(snapshot=f"of {state.job}", where=state.target, reason=reason)
    if host.store(state.store).encrypted:
        reason = (
            f"its store {state.store.url} is encrypted, and this host does not see it, so that"
            " its snapshots would not be encrypted there; use a store that both reach"
        )
        raise NotRestorable(snapshot=f"of {state.job}", where=state.target, reason=reason)
    state.store = host.own_store


def _send_image(session: Session, state: MigrateState) -> int:
    """Send what the target lacks of an image that no registry has."""
    if not state.send_image:
        return 0
    folder = scratch.place(session.host.paths, state.snapshot) / "image"
    session.host.engine.save_image(state.image, folder)
    names = imagebox.names(folder, without=frozenset(state.layers))
    pack = ["tar", "--create", f"--directory={folder}", *names]
    image = msgspec.json.encode(state.image).decode()
    sizes = file_sizes(folder)
    sent = sum(sizes[name] for name in names)
    tell = watch.sent(sum(sizes.values()), sent, session.observer.progress)
    _expect(state, _remote(session, state).send(pack, "peer", "take-image", image, tell=tell))
    shutil.rmtree(folder)
    return sent


def _send(session: Session, state: MigrateState) -> int:
    """Send the packs that the target lacks and the manifest, unless both have the same store."""
    if state.shared:
        return 0
    host, remote = session.host, _remote(session, state)
    manifest = host.store(state.store).load(state.job, state.snapshot)
    packs = {key_of(pack.id): pack.size for pack in manifest.content.packs}
    answer = remote.call("peer", "lacks", stdin=msgspec.json.encode(list(packs)))
    _expect(state, answer)
    lacking = [key for key in packs if key in answer.data]  # and nothing else that it may name
    folder = scratch.place(host.paths, state.snapshot)
    (folder / MANIFEST).write_bytes(encode(manifest))
    members = [f"--directory={folder}", MANIFEST, f"--directory={state.store.url}", *lacking]
    pack = ["tar", "--create", "--format=posix", *members]
    sent = sum(packs[key] for key in lacking)
    tell = watch.sent(sum(packs.values()), sent, session.observer.progress)
    _expect(state, remote.send(pack, "peer", "take", state.job, state.snapshot, tell=tell))
    return sent


def _call_back(session: Session, state: MigrateState) -> None:
    """Make the target drop the snapshot, unless the job runs there."""
    with suppress(TargetUnreachable):  # what stays there is invisible to everybody
        _remote(session, state).call("peer", "settle", state.job, state.snapshot)


def _hand_over(session: Session, state: MigrateState) -> None:
    """Let the target have the lease; whatever happens, the job must not run here without it."""
    if state.leased:
        capture.tell(session.host, state)
        tenure.give_up(session.host, state.job)
        fence.close(session.host.paths, state.job)


def _take_back(session: Session, state: MigrateState) -> None:
    host = session.host
    if state.leased and tenure.of(host.paths, state.job) is None:
        note = session.observer.note
        taken = tenure.take(host, state.job, state.store, above=0, by_force=False, tell=note)
        record = jobs.load(host.paths, state.job)
        if record:
            jobs.save(host.paths, replace(record, epoch=taken.epoch))
        if not supervising.supervised(host.paths, state.job):
            supervising.begin(host, state.job)


def _restore_there(session: Session, state: MigrateState) -> None:
    remote = _remote(session, state)
    answer = remote.call("restore", state.job, "--snapshot", state.snapshot, *_place(state))
    if answer.status != "success":
        raise RestoreFailed(snapshot=state.snapshot, reason=f"{state.target}: {answer.reason}")
    state.there = msgspec.convert(answer.data["phases"], list[PhaseRecord])
    state.confirmed = True


def _place(state: MigrateState) -> list[str]:
    """Return the options that name a store that both hosts see, with its key at the same path."""
    if not state.shared:
        return []
    key = [f"--key-file={state.store.key_file}"] if state.store.key_file else []
    return [f"--store={state.store.url}", *key]


def _runs_there(session: Session, state: MigrateState) -> bool:
    """Ask the target, which takes back what it has not finished.

    A target that does not answer may run the job: then the source must not go on.
    """
    try:
        answer = _remote(session, state).call("peer", "settle", state.job, state.snapshot)
    except TargetUnreachable:
        return True
    state.confirmed = answer.status == "success" and bool(answer.data["running"])
    return state.confirmed or answer.status != "success"


def _give_up(session: Session, state: MigrateState) -> None:
    """End the source; its snapshot is kept until the target is known to have the job."""
    host = session.host
    record = jobs.load(host.paths, state.job)
    if record:
        place = jobs.Place.MOVED if state.confirmed else jobs.Place.STORED
        given = replace(record, place=place, target=state.target)
        jobs.save(host.paths, replace(given, parent=state.snapshot, store=state.store))
    host.engine.remove(state.container)
    tenure.forget(host.paths, state.job)
    if state.confirmed and not state.shared:
        _forget_handovers(host.store(state.store), state.job)


def _forget_handovers(store: Store, job: str) -> None:
    left = [it.snapshot for it in store.manifests(job) if it.handover]
    store.remove(job, *left)


def _unpublish(session: Session, state: MigrateState) -> None:
    """Take it back, unless the source is gone, too: this host has been off meanwhile."""
    host, record = session.host, jobs.load(session.host.paths, state.job)
    if record and host.oci.status(state.container) not in {"running", "paused"}:
        jobs.save(host.paths, replace(record, parent=state.snapshot, store=state.store))
    else:
        host.store(state.store).remove(state.job, state.snapshot)


def _expect(state: MigrateState, answer: Answer) -> None:
    if answer.status != "success":
        raise TargetUnreachable(target=state.target, reason=answer.reason)


MIGRATE: Final[Transaction[MigrateState]] = Transaction(
    verb="migrate",
    state=MigrateState,
    phases=[
        Phase("check target", _check_target),
        *capture.PREPARE,
        Phase("send image", _send_image),
        *capture.FREEZE,
        capture.DUMP_AND_SEND,
        capture.COPY,
        capture.STORE,
        Phase("publish", capture.PUBLISH.do, _unpublish),
        Phase("send", _send, _call_back),
        Phase("hand over lease", _hand_over, _take_back),
        Phase("restore there", _restore_there),
        Phase("give up here", _give_up),
        capture.TIDY_UP,
    ],
    commit="restore there",
    committed=_runs_there,
)
