"""The migration of a running job to another host: a capture here, a restore there.

The source stays frozen until the job runs on the target and is ended only then; if anything
fails before, it goes on as if nothing had been.
"""

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
from spotrun.images.manifest import PhaseRecord
from spotrun.runtime import admission, capture, facts, jobs, locks, transaction
from spotrun.runtime.capture import CaptureState
from spotrun.runtime.host import Host
from spotrun.runtime.remote import Answer, Remote
from spotrun.runtime.transaction import Observer, Phase, Session, Transaction


@dataclass(slots=True, kw_only=True)
class MigrateState(CaptureState):
    """What the phases of a migration know."""

    target: str
    layers: list[str] = field(default_factory=list)
    """Digests of layers that the target has."""
    confirmed: bool = False
    """Whether the target has said that the job runs there."""
    there: list[PhaseRecord] = field(default_factory=list)
    """Phases of the restore on the target."""


def migrate(host: Host, job: str, *, target: str, observer: Observer) -> MigrateState:
    """Move a running job to another host."""
    Remote(host.runner, target)
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
    memory = capture.memory_of(host.oci.processes(state.container))
    demand = admission.Demand(
        name=state.job,
        image=state.image,
        source=facts.gather(host.runner, host.engine.version()),
        memory=memory,
        disk=memory,
        binds=admission.user_binds(state.run.options),
        volumes=tuple(volumes),
    )
    answer = _remote(session, state).call("peer", "admit", stdin=msgspec.json.encode(demand))
    if answer.status != "success":
        raise TargetUnreachable(target=state.target, reason=answer.reason)
    if answer.data["refusals"]:
        reason = "; ".join(answer.data["refusals"])
        raise NotRestorable(snapshot=f"of {state.job}", where=state.target, reason=reason)
    state.keep_image, state.layers = not answer.data["has_image"], answer.data["layers"]


def _send_image(session: Session, state: MigrateState) -> int:
    """Send what the target lacks of an image that no registry has."""
    if not state.keep_image or state.image.digest:
        return 0
    store = session.host.store(state.store)
    names = imagebox.files(store, state.image, without=frozenset(state.layers))
    folder = imagebox.place(store, state.image)
    pack = ["tar", "--create", "--dereference", f"--directory={folder}", *names]
    image = msgspec.json.encode(state.image).decode()
    _expect(state, _remote(session, state).send(pack, "peer", "take-image", image))
    return sum((folder / name).stat().st_size for name in names)


def _send(session: Session, state: MigrateState) -> int:
    """Send the snapshot, which the target commits to its own store."""
    store = session.host.store(state.store)
    manifest = store.load(state.job, state.snapshot)
    folder = store.fetch(manifest)
    pack = ["tar", "--create", "--sparse", f"--directory={folder}", "."]
    answer = _remote(session, state).send(pack, "peer", "take", state.job, state.snapshot)
    _expect(state, answer)
    return manifest.bytes


def _call_back(session: Session, state: MigrateState) -> None:
    """Make the target drop the snapshot, unless the job runs there."""
    with suppress(TargetUnreachable):  # what stays there is invisible to everybody
        _remote(session, state).call("peer", "settle", state.job, state.snapshot)


def _restore_there(session: Session, state: MigrateState) -> None:
    remote = _remote(session, state)
    answer = remote.call("restore", state.job, "--snapshot", state.snapshot)
    if answer.status != "success":
        raise RestoreFailed(snapshot=state.snapshot, reason=f"{state.target}: {answer.reason}")
    state.there = msgspec.convert(answer.data["phases"], list[PhaseRecord])
    state.confirmed = True


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
        jobs.save(host.paths, replace(record, place=place, target=state.target))
    host.engine.remove(state.container)
    if state.confirmed:
        store = host.store(state.store)
        for left in store.manifests(state.job):
            if left.handover:
                store.remove(state.job, left.snapshot)


def _unpublish(session: Session, state: MigrateState) -> None:
    session.host.store(state.store).remove(state.job, state.snapshot)


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
        *capture.FREEZE_AND_COPY,
        Phase("publish", capture.PUBLISH.do, _unpublish),
        Phase("send", _send, _call_back),
        Phase("restore there", _restore_there),
        Phase("give up here", _give_up),
    ],
    commit="restore there",
    committed=_runs_there,
)
