"""Snapshots that their store could not take: kept in this host's own, to be sent later."""

import platform
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import msgspec

from spotrun.images import imagebox, lease
from spotrun.images.address import Address
from spotrun.images.durable import write_json
from spotrun.images.errors import SnapshotNotFound, SpotrunError, Unsent
from spotrun.images.holds import Purpose
from spotrun.images.lease import Lease
from spotrun.images.manifest import Manifest
from spotrun.images.pushing import Push
from spotrun.images.retention import Reason
from spotrun.images.store import Store, Tell, new_hold
from spotrun.runtime import chronicle, locks, scratch, tenure
from spotrun.runtime.host import Host


@dataclass(frozen=True, slots=True)
class Record:
    """A snapshot that is to be sent."""

    job: str
    snapshot: str
    store: Address
    """Where to."""


def keep(host: Host, staged: Path, manifest: Manifest, store: Address, reason: str) -> NoReturn:
    """Keep a snapshot's files in this host's own store, and raise Unsent."""
    push = _push(host.store(), manifest.job)
    _store(push, staged, replace(manifest, handover=False), None, None)
    record = Record(manifest.job, manifest.snapshot, store)
    write_json(host.paths.unsent / f"{manifest.snapshot}.json", msgspec.to_builtins(record))
    raise Unsent(job=manifest.job, snapshot=manifest.snapshot, reason=reason)


def send(host: Host, which: str | None, tell: Tell | None) -> list[Record]:
    """Send what is kept: all of it, or that of one job or snapshot.

    Of a job that has a lease the newest is sent, and those before it are given up: each would have
    to follow what was committed last.
    """
    found = [it for it in records(host) if which in {None, it.job, it.snapshot}]
    if which is not None and not found:
        raise SnapshotNotFound(which=f"{which} to be sent", store="this host")
    failures: list[SpotrunError] = []
    followed: set[str] = set()
    for record in reversed(found):
        try:
            if record.job in followed:
                _forget(host, record)
            elif _send_held(host, record, tell):
                followed.add(record.job)
        except SpotrunError as error:  # the others can still be sent
            failures.append(error)
    if failures:
        raise failures[0]
    return found


def _send_held(host: Host, record: Record, tell: Tell | None) -> bool:
    """Send one, and tell whether its job has a lease."""
    with locks.hold(host.paths.locks, record.job, "push", host.clock.now(), wait=False):
        return _send(host, record, tell)


def records(host: Host) -> list[Record]:
    """Return what is to be sent, oldest first."""
    paths = sorted(host.paths.unsent.glob("[!.]*.json"))
    return [msgspec.json.decode(path.read_bytes(), type=Record) for path in paths]


def staying(host: Host) -> dict[str, Reason]:
    """Return the snapshots that no pruning takes: they are to be sent first."""
    return {it.snapshot: Reason.UNSENT for it in records(host)}


def drop(host: Host, job: str, *, but: str | None = None) -> None:
    """Give up what is kept of a job, `but` for one snapshot."""
    for record in records(host):
        if record.job == job and record.snapshot != but:
            _forget(host, record)


def _forget(host: Host, record: Record) -> None:
    host.store().remove(record.job, record.snapshot)
    (host.paths.unsent / f"{record.snapshot}.json").unlink(missing_ok=True)


def _send(host: Host, record: Record, tell: Tell | None) -> bool:
    own, target = host.store(), host.store(record.store)
    if not target.has(record.job, record.snapshot):
        manifest = own.load(record.job, record.snapshot)
        name, needed = f"send-{record.snapshot}", manifest.memory_bytes
        with scratch.held(host.paths, name):
            folder = scratch.make(host.paths, name, images=needed, memory=needed)
            own.fetch(manifest, folder, tell=tell)
            push = _push(target, record.job)
            _send_image(host, target, push, manifest, tell)
            with tenure.lent(host, manifest, record.store) as held:
                _store(push, folder, manifest, tell, held)
        if manifest.care:
            chronicle.snapshot(host, manifest, record.store)
    _forget(host, record)
    return lease.read(target, record.job) is not None


def _push(store: Store, job: str) -> Push:
    return store.begin(new_hold(Purpose.PUSH), job, platform.node())


def _store(
    push: Push, folder: Path, manifest: Manifest, tell: Tell | None, held: Lease | None
) -> None:
    content = push.store(folder, manifest.files, threads=None, tell=tell)
    epoch = held.epoch if held else manifest.epoch
    push.publish(replace(manifest, content=content, epoch=epoch), held)
    push.end()


def _send_image(
    host: Host, target: Store, push: Push, manifest: Manifest, tell: Tell | None
) -> None:
    """Send an image that no registry has, if this host still has it."""
    image = manifest.image
    if image.digest or push.image(image) or host.engine.image(image.id) is None:
        return
    folder = scratch.place(host.paths, f"send-{manifest.snapshot}") / "image"
    host.engine.save_image(image, folder)
    imagebox.put(target, push, image, folder, threads=None, tell=tell)
