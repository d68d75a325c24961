"""A store: snapshots in packs of a backend, whole or invisible.

    store.json                      what the store is, and its keys (opening.py)
    packs/XX/ID                     chunks
    snapshots/JOB/SNAPSHOT          a manifest: written last, it is the commit
    images/ID/NONCE                 an image that travels with jobs
    holds/ID                        somebody reads or writes (holds.py)
    leases/JOB                      who may run a job, and what of it is committed (lease.py)
    history/JOB/EVENT               what has happened to it (ledger.py)

Packs come before the manifest that names them. `docs/format.md` has the bytes.
"""

import os
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from spotrun.images import lease, pull
from spotrun.images.backends.base import Backend, ObjectChanged, ObjectExists, ObjectMissing, Packs
from spotrun.images.errors import (
    LeaseLost,
    SnapshotDamaged,
    SnapshotNotFound,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
)
from spotrun.images.holds import Hold, Holds, Purpose
from spotrun.images.lease import Lease
from spotrun.images.manifest import SNAPSHOT_ID, Manifest, decode, encode
from spotrun.images.meter import Meter, Progress
from spotrun.images.pull import Damaged
from spotrun.images.pushing import Push
from spotrun.images.recipe import Content
from spotrun.images.runspec import ImageRef
from spotrun.images.seal import Broken, Keyed, Seal, open_document, seal_document

IDENTITY: Final = "store.json"
SNAPSHOTS: Final = "snapshots/"
IMAGES: Final = "images/"
_READERS: Final = 16
_AHEAD: Final = 64
"""Manifests that are fetched while others are looked at."""

Tell = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image in the store: the files of its `dir:` form."""

    image: ImageRef
    files: dict[str, int]
    """Path and size in bytes."""
    content: Content


class Store:
    """Snapshots and images in one backend; for one process, and for threads in it."""

    def __init__(self, backend: Backend, seal: Seal) -> None:
        """Use the objects of a backend as that seal guards them."""
        self.backend = backend
        self.packs: Packs = backend
        """The way of the bytes, which may lead through a cache (cache.py)."""
        self.seal = seal
        self.holds = Holds(backend, seal)
        self._pushes: dict[str, Push] = {}

    def __str__(self) -> str:
        """Return what a user calls it."""
        return str(self.backend)

    @property
    def id(self) -> str:
        """What tells it from all other stores."""
        return self.seal.store

    @property
    def encrypted(self) -> bool:
        """Tell whether nobody can read it without a key."""
        return isinstance(self.seal, Keyed)

    def require(self) -> None:
        """Raise StoreUnavailable if it has gone: unmounted, wiped, or another is in its place."""
        try:
            there = msgspec.json.decode(self.backend.get(IDENTITY), type=dict[str, object])
        except (ObjectMissing, msgspec.MsgspecError):
            raise StoreUnavailable(store=self, reason=f"its {IDENTITY} has gone") from None
        if there.get("id") != self.id:
            raise StoreUnavailable(store=self, reason="another store is in its place")

    def begin(self, hold_id: str, job: str, host: str) -> Push:
        """Hold the store for a push, and learn what it has; the same id gives the same push."""
        if hold_id not in self._pushes:
            self._pushes[hold_id] = Push(self, hold_id, job, host)
        return self._pushes[hold_id]

    def abandon(self, hold_id: str) -> None:
        """Give a push up; what it has stored is noted for the next one of its job."""
        push = self._pushes.pop(hold_id, None)
        if push:
            push.stop()
        held = self.holds.read(hold_id)
        if held and held.packs:
            self.holds.write(hold_id, replace(held, purpose=Purpose.LEFT))
        else:
            self.holds.end(hold_id)

    def end(self, hold_id: str) -> None:
        """Let others delete again, after the commit or when nothing is read any more."""
        push = self._pushes.pop(hold_id, None)
        self.holds.end(hold_id, *(push.heirs if push else ()))

    def has(self, job: str, snapshot: str) -> bool:
        """Tell whether that snapshot is committed."""
        return snapshot in self.committed(job)

    def committed(self, job: str) -> list[str]:
        """Return the ids of a job's committed snapshots, the newest one last."""
        there = [snapshot for _, snapshot in self.ids(job)]
        held = lease.read(self, job)
        if held is None or held.snapshots is None:
            return there
        return [it for it in held.snapshots if it in there]

    def ids(self, job: str | None = None) -> list[tuple[str, str]]:
        """Return job and id of all snapshots, of one job or all, oldest first within a job."""
        prefix = f"{SNAPSHOTS}{job}/" if job else SNAPSHOTS
        keys = (entry.key.removeprefix(SNAPSHOTS) for entry in self.backend.list(prefix))
        names = (key.partition("/") for key in keys)
        return [(found, it) for found, _, it in names if SNAPSHOT_ID.fullmatch(it)]

    def manifests(self, job: str | None = None) -> list[Manifest]:
        """Return the manifests of all readable snapshots, of one job or all, oldest first."""
        found = [it for _, _, it in self.examined(self.ids(job)) if isinstance(it, Manifest)]
        return sorted(found, key=lambda manifest: (manifest.created, manifest.snapshot))

    def examined(
        self, ids: Iterable[tuple[str, str]]
    ) -> Iterator[tuple[str, str, Manifest | SnapshotDamaged | None]]:
        """Yield job, id, and the manifest or what is wrong with it; None: it has been removed."""

        def fetch(job: str, snapshot: str) -> tuple[str, str, bytes | None]:
            with suppress(ObjectMissing):
                return job, snapshot, self.backend.get(_key(job, snapshot))
            return job, snapshot, None

        todo = iter(ids)
        with ThreadPoolExecutor(_READERS) as pool:  # to wait only: decoding gains nothing by them
            fetching = deque(pool.submit(fetch, *names) for names in islice(todo, _AHEAD))
            while fetching:
                job, snapshot, raw = fetching.popleft().result()
                fetching.extend(pool.submit(fetch, *names) for names in islice(todo, 1))
                found: Manifest | SnapshotDamaged | None = None
                try:
                    found = None if raw is None else self._decoded(job, snapshot, raw)
                except SnapshotDamaged as error:
                    found = error
                yield job, snapshot, found

    def load(self, job: str, snapshot: str) -> Manifest:
        """Return a snapshot's manifest, or raise SnapshotNotFound or SnapshotDamaged."""
        try:
            return self._decoded(job, snapshot, self.backend.get(_key(job, snapshot)))
        except ObjectMissing:
            raise SnapshotNotFound(which=snapshot, store=self) from None

    def find(self, job: str, snapshot: str | None) -> Manifest:
        """Return the named snapshot of a job, or its newest."""
        if snapshot is not None:
            return self.load(job, snapshot)
        found = self.committed(job)
        if not found:
            raise SnapshotNotFound(which=f"of job {job!r}", store=self)
        return self.load(job, found[-1])

    def publish(self, manifest: Manifest, held: Lease | None = None) -> None:
        """Commit a snapshot whose packs are stored; LeaseLost: others have the job."""
        self._put(manifest)
        try:
            held.commit(manifest) if held else lease.refuse_others(self, manifest.job)
        except LeaseLost:
            with suppress(StoreUnavailable):  # it counts for nothing, and a prune removes it
                self.remove(manifest.job, manifest.snapshot)
            raise

    def remove(self, job: str, *snapshots: str) -> None:
        """Take snapshots away, at once for readers; their packs stay until the next prune."""
        self.backend.delete(_key(job, it) for it in snapshots)

    def read(self, hold_id: str, job: str, host: str) -> None:
        """Hold the store, so that what is read is not deleted meanwhile.

        One that cannot be written is read all the same: what has gone then is told as damage.
        """
        with suppress(StoreFull, StoreDenied):
            self.holds.write(hold_id, Hold(Purpose.PULL, job, host))

    def fetch(
        self,
        manifest: Manifest,
        folder: Path,
        only: Iterable[str] | None = None,
        tell: Tell | None = None,
    ) -> int:
        """Write a snapshot's files, or `only` some, below `folder`; return the bytes read."""
        return self.opened(manifest).fetch(folder, manifest.files if only is None else only, tell)

    def opened(self, manifest: Manifest) -> "Opened":
        """Begin to read a snapshot whose files are to be written in turns."""
        with _damage_of(manifest.snapshot):
            return Opened(manifest, pull.Opened(self.packs, self.seal, manifest.content))

    def check(self, manifest: Manifest) -> None:
        """Prove that the packs of a snapshot are there and whole at their ends."""
        with _damage_of(manifest.snapshot):
            pull.open_packs(self.backend, self.seal, manifest.content.packs)

    def image(self, image: ImageRef) -> StoredImage | None:
        """Return what the store has of an image; None: nothing, or nothing readable."""
        return next(self._images(f"{IMAGES}{image.id}/"), None)

    def images(self) -> list[StoredImage]:
        """Return all images."""
        return list(self._images(IMAGES))

    def load_image(self, key: str) -> StoredImage:
        """Return the image that is stored under a key, or raise ObjectMissing or Broken."""
        raw = open_document(self.seal, key, self.backend.get(key))
        try:
            return msgspec.json.decode(raw, type=StoredImage)
        except msgspec.MsgspecError as error:
            raise Broken(f"{key} makes no sense: {error}") from None

    def put_image(self, stored: StoredImage) -> None:
        """Commit an image whose packs are stored.

        Its key is a new one: somebody may be about to delete an earlier one, which nobody needed.
        """
        key = f"{IMAGES}{stored.image.id}/{secrets.token_hex(8)}"
        self.backend.put(key, seal_document(self.seal, key, msgspec.json.encode(stored)))

    def fetch_image(self, stored: StoredImage, folder: Path, tell: Tell | None = None) -> None:
        """Write an image's files below `folder`."""
        meter = Meter(sum(stored.files.values()), tell)
        with _damage_of(f"with image {stored.image.name}"):
            pull.pull(self.packs, self.seal, stored.content, folder, stored.files, meter=meter)

    def _put(self, manifest: Manifest) -> None:
        """Write a manifest if there is none, or only what an earlier try has left uncommitted."""
        key = _key(manifest.job, manifest.snapshot)
        document = seal_document(self.seal, key, encode(manifest))
        try:
            try:
                self.backend.create(key, document)
            except ObjectExists:
                _, tag = self.backend.get_tagged(key)
                if self.has(manifest.job, manifest.snapshot):
                    raise
                self.backend.replace(key, document, tag)
        except (ObjectExists, ObjectMissing, ObjectChanged):
            raise StoreUnavailable(store=self, reason=f"it has a snapshot {key} already") from None

    def _decoded(self, job: str, snapshot: str, raw: bytes) -> Manifest:
        try:
            manifest = decode(open_document(self.seal, _key(job, snapshot), raw))
        except (Broken, ValueError) as error:
            raise SnapshotDamaged(snapshot=snapshot, reason=f"its manifest: {error}") from error
        if (manifest.job, manifest.snapshot) != (job, snapshot):
            raise SnapshotDamaged(snapshot=snapshot, reason="its manifest is another one's")
        return manifest

    def _images(self, prefix: str) -> Iterator[StoredImage]:
        for entry in self.backend.list(prefix):
            with suppress(ObjectMissing, Broken):
                yield self.load_image(entry.key)


@dataclass(frozen=True, slots=True)
class Opened:
    """A snapshot that is being read."""

    manifest: Manifest
    content: pull.Opened

    def fetch(self, folder: Path, paths: Iterable[str], tell: Tell | None = None) -> int:
        """Write those of its files below `folder`; return the bytes read."""
        sizes = {path: self.manifest.files[path] for path in paths}
        meter = Meter(sum(sizes.values()), tell)
        with _damage_of(self.manifest.snapshot):
            self.content.pull(folder, sizes, meter=meter)
        return meter.moved


def file_sizes(folder: Path) -> dict[str, int]:
    """Return the path, relative to `folder`, and size of every file in it, also behind links."""
    found = {}
    for place, _, names in os.walk(folder, followlinks=True):
        for path in (Path(place, name) for name in names):
            found[str(path.relative_to(folder))] = path.stat().st_size
    return found


def new_hold(purpose: Purpose) -> str:
    """Return an id for a hold of nobody's transaction."""
    return f"{purpose}-{secrets.token_hex(8)}"


@contextmanager
def _damage_of(snapshot: str) -> Iterator[None]:
    try:
        yield
    except (Damaged, Broken) as error:
        raise SnapshotDamaged(snapshot=snapshot, reason=error) from error


def _key(job: str, snapshot: str) -> str:
    return f"{SNAPSHOTS}{job}/{snapshot}"
