"""A store: snapshots in packs of a backend, whole or invisible.

    store.json                      what the store is, and its keys (opening.py)
    packs/XX/ID                     chunks
    snapshots/JOB/SNAPSHOT          a manifest: written last, it is the commit
    images/ID/NONCE                 an image that travels with jobs
    holds/ID                        somebody reads or writes (holds.py)

Packs come before the manifest that names them. `docs/format.md` has the bytes.
"""

import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from spotrun.images import pull, push
from spotrun.images.backends.base import Backend, ObjectExists, ObjectMissing, Packs
from spotrun.images.errors import (
    SnapshotDamaged,
    SnapshotNotFound,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
)
from spotrun.images.holds import Hold, Holds, Purpose
from spotrun.images.known import Known
from spotrun.images.manifest import SNAPSHOT_ID, ImageRef, Manifest, decode, encode
from spotrun.images.meter import Meter, Progress
from spotrun.images.pack import Pack, PackRef
from spotrun.images.pull import Damaged
from spotrun.images.recipe import Content
from spotrun.images.seal import Broken, Keyed, Seal, open_document, seal_document

SNAPSHOTS: Final = "snapshots/"
IMAGES: Final = "images/"
_READERS: Final = 16
_AHEAD: Final = 64
"""Manifests that are fetched while others are looked at."""
_NEIGHBOURS: Final = 32
"""Other jobs whose newest snapshot is looked at for chunks that are the same."""

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

    def begin(self, hold_id: str, job: str, host: str) -> "Push":
        """Hold the store for a push, and learn what it has; the same id gives the same push."""
        if hold_id not in self._pushes:
            self._pushes[hold_id] = Push(self, hold_id, job, host)
        return self._pushes[hold_id]

    def abandon(self, hold_id: str) -> None:
        """Give a push up; what it has stored is noted for the next one of its job."""
        self._pushes.pop(hold_id, None)
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
        with suppress(ObjectMissing):
            self.backend.get(_key(job, snapshot))
            return True
        return False

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
        found = self.ids(job)
        if not found:
            raise SnapshotNotFound(which=f"of job {job!r}", store=self)
        return self.load(*found[-1])

    def publish(self, manifest: Manifest) -> None:
        """Commit a snapshot whose packs are stored."""
        key = _key(manifest.job, manifest.snapshot)
        try:
            self.backend.create(key, seal_document(self.seal, key, encode(manifest)))
        except ObjectExists:
            raise StoreUnavailable(store=self, reason=f"it has a snapshot {key} already") from None

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
        files = {path: manifest.files[path] for path in (manifest.files if only is None else only)}
        with _damage_of(manifest.snapshot):
            return self._fetch(manifest.content, files, folder, tell)

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
        with _damage_of(f"with image {stored.image.name}"):
            self._fetch(stored.content, stored.files, folder, tell)

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

    def _fetch(
        self, content: Content, files: dict[str, int], folder: Path, tell: Tell | None
    ) -> int:
        meter = Meter(sum(files.values()), tell)
        pull.pull(self.packs, self.seal, content, folder, files, meter=meter)
        return meter.moved


class Push:
    """One push into a store: it holds what it builds upon, and remembers what has arrived."""

    def __init__(self, store: Store, hold_id: str, job: str, host: str) -> None:
        """Make the hold first, then look what is there."""
        self.moved = 0
        self._store = store
        self._id = hold_id
        earlier = store.holds.read(hold_id)  # of a process that died
        self._hold = Hold(Purpose.PUSH, job, host, earlier.packs if earlier else ())
        self._pruned = False
        self._lock = threading.Lock()
        store.holds.write(hold_id, self._hold)
        self.heirs = self._abandoned()
        """Pushes that did not end, by hold: this one builds upon what they have stored."""
        self._known = Known(self._arrived)
        for pack, used in self._packs():
            self._known.learn(pack, used)

    def store(
        self, folder: Path, files: dict[str, int], *, threads: int | None, tell: Tell | None
    ) -> Content:
        """Store files below `folder`, given their sizes; what is there already is not sent."""
        meter = Meter(sum(files.values()), tell)
        try:
            return push.push(
                self._store.packs,
                self._store.seal,
                folder,
                files,
                known=self._known,
                meter=meter,
                threads=threads,
            )
        finally:
            self.moved += meter.moved

    def image(self, image: ImageRef) -> StoredImage | None:
        """Return an image that the store has and keeps; None: it must be stored, maybe again."""
        return None if self._pruned else self._store.image(image)

    def publish(self, manifest: Manifest) -> None:
        """Commit, unless a prune may have taken our packs away after a day of silence."""
        if self._store.holds.read(self._id) is None:
            raise StoreUnavailable(store=self._store, reason="its hold of this push has ended")
        self._store.publish(manifest)

    def end(self) -> None:
        """Let others delete again, after the commit."""
        self._store.end(self._id)

    def _arrived(self, ref: PackRef) -> None:
        with self._lock:
            self._hold = replace(self._hold, packs=(*self._hold.packs, ref))
            self._store.holds.write(self._id, self._hold)

    def _abandoned(self) -> dict[str, Hold]:
        """Return the pushes of this job that did not end: the job's lock says that none runs.

        While somebody deletes packs, those of no snapshot must not be built upon.
        """
        found = {it.id: self._store.holds.read(it.id) for it in self._store.holds.held()}
        holds = {it: hold for it, hold in found.items() if hold}
        self._pruned = any(hold.purpose is Purpose.PRUNE for hold in holds.values())
        if self._pruned:
            return {}
        mine, pushes = (self._hold.job, self._hold.host), {Purpose.PUSH, Purpose.LEFT}
        return {
            it: held
            for it, held in holds.items()
            if held.purpose in pushes and (held.job, held.host) == mine
        }

    def _packs(self) -> Iterator[tuple[Pack, int | None]]:
        """Yield the packs to look for chunks in, and how much of each is in use; not all packs."""
        refs: dict[str, PackRef] = {}
        used: dict[str, int] = {}
        for content in self._contents():
            for ref in content.packs:
                refs.setdefault(ref.id, ref)
                used[ref.id] = max(used.get(ref.id, 0), ref.used)
        for hold in self.heirs.values():
            refs.update({ref.id: ref for ref in hold.packs if ref.id not in refs})
        for pack in self._readable(list(refs.values())):
            yield pack, used.get(pack.ref.id)

    def _contents(self) -> Iterator[Content]:
        newest = dict(self._store.ids())
        own = newest.pop(self._hold.job, None)
        names = [(self._hold.job, own)] if own else []
        names += sorted(newest.items(), key=lambda it: it[1], reverse=True)[:_NEIGHBOURS]
        for _, _, manifest in self._store.examined(names):
            if isinstance(manifest, Manifest):
                yield manifest.content
        if not self._pruned:  # an image need not have a snapshot either
            yield from (stored.content for stored in self._store.images())

    def _readable(self, refs: list[PackRef]) -> Iterator[Pack]:
        """Yield the packs that are there and whole, at their ends at least."""

        def one(ref: PackRef) -> Pack | None:
            with suppress(Damaged):
                return pull.open_pack(self._store.backend, self._store.seal, ref)
            return None

        with ThreadPoolExecutor(_READERS) as pool:
            yield from filter(None, pool.map(one, refs))


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
