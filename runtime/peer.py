"""What a host does for another one that migrates a job to it."""

import platform
import tarfile
from dataclasses import dataclass
from typing import BinaryIO, Final

from spotrun.images.backends.base import is_key
from spotrun.images.errors import SnapshotDamaged
from spotrun.images.manifest import Manifest, decode
from spotrun.images.process import checked
from spotrun.images.runspec import ImageRef
from spotrun.images.store import Store
from spotrun.runtime import admission, jobs, locks, scratch
from spotrun.runtime.host import Host

MANIFEST: Final = "manifest.json"
"""Name of the manifest in the stream that `take` reads."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What the source needs to know before it freezes."""

    refusals: list[str]
    has_image: bool
    layers: list[str]
    sees_store: bool
    """Whether it reaches the very store that the source uses."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Whether the job runs here from that snapshot; if not, it never will."""

    running: bool


def admit(host: Host, demand: admission.Demand) -> Admission:
    """Say whether the job may come; an image is fetched from its registry already now."""
    reasons = [*admission.refusals(host, demand), *_namesakes(host, demand)]
    here = admission.has_image(host, demand.image)
    if not reasons and not here and demand.image.digest:
        missing = admission.get_image(host, host.store(), demand.image)
        reasons, here = ([missing], False) if missing else ([], True)
    return Admission(
        reasons, here, sorted(host.engine.layers()), admission.sees_store(host, demand)
    )


def _namesakes(host: Host, demand: admission.Demand) -> list[str]:
    """Return why a job of this host would be lost to the one that is to come."""
    record = jobs.load(host.paths, demand.name)
    if record is None:
        return []
    if record.is_stored and record.store != demand.store:
        remedy = f"restore it, or `spotrun rm {demand.name}` if nobody needs it"
        return [f"another job {demand.name!r} is stored there as {record.parent}; {remedy}"]
    on = host.of(demand.name)
    found = on.container(demand.name) if on.engine.name != host.engine.name else None
    taken = f"the name {demand.name!r} is taken by a container of {on.engine.name}"
    return [taken] if found and found.running else []


def take_image(host: Host, image: ImageRef, stream: BinaryIO) -> None:
    """Load an image whose files come as a tar stream, without the layers that are here."""
    folder = scratch.make(host.paths, f"image-{image.id}", images=0, memory=0) / "image"
    folder.mkdir()
    try:
        argv = ["tar", "--extract", f"--directory={folder}"]
        checked(host.runner.run(argv, stdin=stream), argv)
        host.engine.load_image(image, folder)
    finally:
        scratch.remove(host.paths, f"image-{image.id}")


def lacks(host: Host, keys: list[str]) -> list[str]:
    """Return those of these packs that this host's store does not have."""
    have = {entry.key for entry in host.store().backend.list("packs/")}
    return [key for key in keys if key not in have]


def take(host: Host, job: str, snapshot: str, stream: BinaryIO) -> None:
    """Commit a snapshot whose manifest and packs come as a tar stream to this host's store.

    It holds the job, so that whoever settles the migration comes after it.
    """
    now = host.clock.now()
    with locks.hold(host.paths.locks, jobs.check_name(job), "take", now, wait=False):
        store = host.store()
        push = store.begin(snapshot, job, platform.node())
        try:
            manifest = _received(store, job, snapshot, stream)
            store.check(manifest)
            push.publish(manifest)
        except BaseException:
            store.abandon(snapshot)
            raise
        push.end()


def _received(store: Store, job: str, snapshot: str, stream: BinaryIO) -> Manifest:
    """Store the packs of a stream, and return its manifest."""
    manifest = None
    with tarfile.open(fileobj=stream, mode="r|") as members:
        for member in members:
            data = members.extractfile(member)
            if data is None or not is_key(member.name):
                raise SnapshotDamaged(snapshot=snapshot, reason=f"it came with a {member.name!r}")
            if member.name == MANIFEST:
                manifest = _manifest(job, snapshot, data.read())
            else:
                store.backend.put(member.name, data.read())
    if manifest is None:
        raise SnapshotDamaged(snapshot=snapshot, reason="it came without a manifest")
    return manifest


def _manifest(job: str, snapshot: str, raw: bytes) -> Manifest:
    try:
        manifest = decode(raw)
    except ValueError as error:
        raise SnapshotDamaged(snapshot=snapshot, reason=f"its manifest: {error}") from error
    if (manifest.job, manifest.snapshot) != (job, snapshot):
        raise SnapshotDamaged(snapshot=snapshot, reason=f"it is one of {manifest.job}")
    return manifest


def settle(host: Host, job: str, snapshot: str) -> Settled:
    """Wait for a restore in progress; if the job does not run, forget the snapshot."""
    now = host.clock.now()
    with locks.hold(host.paths.locks, jobs.check_name(job), "settle", now, wait=True):
        record = jobs.load(host.paths, job)
        if record is not None and record.parent == snapshot:  # written when it was taken over
            return Settled(running=True)
        store = host.store()
        store.remove(job, snapshot)
        store.abandon(snapshot)
        return Settled(running=False)
