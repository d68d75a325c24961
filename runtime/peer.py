"""What a host does for another one that migrates a job to it."""

from dataclasses import dataclass
from typing import BinaryIO

from spotrun.images.errors import SnapshotDamaged
from spotrun.images.manifest import ImageRef, decode
from spotrun.images.process import checked
from spotrun.images.store import MANIFEST, check_files
from spotrun.runtime import admission, jobs, locks
from spotrun.runtime.host import Host


@dataclass(frozen=True, slots=True)
class Admission:
    """What the source needs to know before it freezes."""

    refusals: list[str]
    has_image: bool
    layers: list[str]


@dataclass(frozen=True, slots=True)
class Settled:
    """Whether the job runs here from that snapshot; if not, it never will."""

    running: bool


def admit(host: Host, demand: admission.Demand) -> Admission:
    """Say whether the job may come; an image is fetched from its registry already now."""
    reasons = admission.refusals(host, demand)
    here = admission.has_image(host, demand.image)
    if not reasons and not here and demand.image.digest:
        missing = admission.get_image(host, host.store(), demand.image)
        reasons, here = ([missing], False) if missing else ([], True)
    return Admission(reasons, here, sorted(host.engine.layers()))


def take_image(host: Host, image: ImageRef, stream: BinaryIO) -> None:
    """Load an image whose files come as a tar stream, without the layers that are here."""
    store = host.store()
    folder = store.stage(f"image-{image.id}")
    try:
        argv = ["tar", "--extract", f"--directory={folder}"]
        checked(host.runner.run(argv, stdin=stream), argv)
        host.engine.load_image(image, folder)
    finally:
        store.discard(folder.name)


def take(host: Host, job: str, snapshot: str, stream: BinaryIO) -> None:
    """Commit a snapshot that comes as a tar stream to this host's store."""
    store = host.store()
    folder = store.stage(snapshot)
    try:
        argv = ["tar", "--extract", "--same-permissions", f"--directory={folder}"]
        checked(host.runner.run(argv, stdin=stream), argv)
        try:
            manifest = decode((folder / MANIFEST).read_bytes())
        except (OSError, ValueError) as error:
            raise SnapshotDamaged(snapshot=snapshot, reason=f"{MANIFEST}: {error}") from error
        if (manifest.job, manifest.snapshot) != (job, snapshot):
            raise SnapshotDamaged(snapshot=snapshot, reason=f"it is one of {manifest.job}")
        check_files(folder, manifest)
        store.publish(folder, manifest)
    finally:
        store.discard(folder.name)


def settle(host: Host, job: str, snapshot: str) -> Settled:
    """Wait for a restore in progress; if the job does not run, forget the snapshot."""
    now = host.clock.now()
    with locks.hold(host.paths.locks, jobs.check_name(job), "settle", now, wait=True):
        record = jobs.load(host.paths, job)
        if record is not None and record.parent == snapshot:  # written when it was taken over
            return Settled(running=True)
        host.store().remove(job, snapshot)
        return Settled(running=False)
