"""Verify: finds what is damaged or missing in a store, and which snapshots that hits.

Others may push and prune meanwhile: what only snapshots lack that are gone by the end is no damage.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from threading import Lock
from typing import Final, TypeVar

from spotrun.images import lease, pull
from spotrun.images.backends.base import ObjectMissing
from spotrun.images.errors import SnapshotDamaged, SnapshotNotFound
from spotrun.images.holds import PREFIX as HOLDS
from spotrun.images.lease import PREFIX as LEASES
from spotrun.images.ledger import PREFIX as HISTORY
from spotrun.images.manifest import Manifest
from spotrun.images.meter import Meter
from spotrun.images.pack import Pack, PackRef, key_of
from spotrun.images.prune import IMAGE_KEY, SNAPSHOT_KEY
from spotrun.images.pull import Damaged
from spotrun.images.seal import Broken, Seal, open_document
from spotrun.images.store import IDENTITY, IMAGES, SNAPSHOTS, Store, StoredImage, Tell

T = TypeVar("T")
DAMAGED: Final = "damaged/"
"""Where `repair` sets aside what is lost."""
_READERS: Final = 16
_PACK_READERS: Final = 4
"""Each has a whole pack in memory."""
_TAILS: Final = 256
"""Packs whose tails are kept: snapshots that follow each other have most in common."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with one object."""

    key: str
    reason: str
    snapshots: tuple[str, ...]
    """JOB/SNAPSHOT of those that it hits."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What a store has, and what is wrong with it."""

    findings: tuple[Finding, ...]
    lost: tuple[str, ...]
    """Keys of the snapshots and images that cannot be read to their end, and of broken leases and
    events."""
    bad_frames: dict[PackRef, frozenset[int]]
    """Numbers of the frames that cannot be read, of packs whose tails can."""
    suspects: tuple[str, ...]
    """Keys of the snapshots and images that name such packs."""
    named: tuple[PackRef, ...]
    """Packs that are needed, their `used` being 0."""
    snapshots: int
    images: int
    bytes_read: int
    """Of packs that were read whole."""
    unneeded: int
    """Objects that belong to nothing, or not yet."""
    unneeded_bytes: int

    @property
    def bytes(self) -> int:
        """Size of all packs that are needed."""
        return sum(ref.size for ref in self.named)


def verify(store: Store, *, read_data: bool, tell: Tell | None = None) -> Verified:
    """Look at every object that snapshots need; with `read_data` also at every chunk."""
    work = _Work(store)
    _each(_READERS, work.look, work.snapshots)
    _each(_READERS, work.look, work.images())
    meter = Meter(sum(ref.size for ref in work.namers), tell)
    if read_data:
        _each(_PACK_READERS, lambda ref: work.whole(ref, meter), list(work.namers))
        _each(_READERS, work.look_again, work.suspects())
    work.look_for_images()
    work.look_at_holds()
    # What an event says is not asked: it may be of a later spotrun, and is to stay then.
    for prefix, read in ((LEASES, lease.decode), (HISTORY, open_document)):
        _each(_READERS, partial(work.look_alone, read=read), work.below(prefix))
    return work.verified(meter.moved)


def load(store: Store, key: str) -> Manifest | StoredImage:
    """Return what names packs under a key, or raise as `Store.load` and `Store.load_image` do."""
    if key.startswith(SNAPSHOTS):
        return store.load(*key.removeprefix(SNAPSHOTS).split("/"))
    return store.load_image(key)


class _Work:
    """What one verify has found; for several threads."""

    def __init__(self, store: Store) -> None:
        """List the store."""
        self._store = store
        self._sizes = {it.key: it.size for it in store.backend.list()}
        self.snapshots = [key for key in self._sizes if SNAPSHOT_KEY.fullmatch(key)]
        self.namers: dict[PackRef, set[str]] = defaultdict(set)
        """Keys of the snapshots and images that name a pack, its `used` being 0."""
        self._users: dict[str, set[str]] = defaultdict(set)
        """Keys of the snapshots that need an image, by its id."""
        self._unregistered: set[str] = set()
        """Ids of images that no registry has."""
        self._bad_frames: dict[PackRef, set[int]] = defaultdict(set)
        self._reasons: dict[str, str] = {}
        self._hit: dict[str, set[str]] = defaultdict(set)
        self._lost: set[str] = set()
        self._lock = Lock()
        self._pack = lru_cache(_TAILS)(self._opened)
        self._there = lru_cache(None)(self._exists)

    def images(self) -> list[str]:
        """Return the keys of the images that snapshots need."""
        found = ((key, IMAGE_KEY.fullmatch(key)) for key in self._sizes)
        return [key for key, match in found if match and match[1] in self._users]

    def look(self, key: str) -> None:
        """Look whether a snapshot or an image can be what it says."""
        found = self._read(key)
        if found is None:
            return
        with self._lock:
            for ref in found.content.packs:
                self.namers[replace(ref, used=0)].add(key)
            if isinstance(found, Manifest):
                self._users[found.image.id].add(key)
                if not found.image.digest and not found.handover:
                    self._unregistered.add(found.image.id)
        self._look_at(key, found)

    def whole(self, ref: PackRef, meter: Meter) -> None:
        """Read a pack to its end, unless its tail is broken already."""
        key = _key(ref)
        try:
            pack, raw = self._pack(ref), memoryview(self._store.backend.get(key))
        except Damaged:
            return
        except ObjectMissing:
            for owner in self.namers[ref]:
                self._found(key, "it is missing", owner)
            return
        for frame in pack.frames:
            try:
                stored = raw[frame.offset : frame.offset + frame.stored]
                pull.open_frame(pack, frame, stored, self._store.seal)
            except Damaged as error:
                with self._lock:
                    self._bad_frames[ref].add(frame.number)
                    self._reasons.setdefault(key, error.reason)
        meter.add(done=ref.size, moved=len(raw))

    def suspects(self) -> list[str]:
        """Return the keys of what names packs that have bad frames."""
        return sorted(set().union(*(self.namers[ref] for ref in self._bad_frames)))

    def look_again(self, key: str) -> None:
        """Look whether a snapshot or an image needs a bad frame."""
        if found := self._read(key):
            self._look_at(key, found)

    def look_for_images(self) -> None:
        """Look for the images that must be in the store."""
        stored = {match[1] for match in map(IMAGE_KEY.fullmatch, self._sizes) if match}
        for image in sorted(self._unregistered - stored):
            if not any(self._store.backend.list(f"{IMAGES}{image}/")):
                for user in self._users[image]:
                    self._found(
                        IMAGES + image, "it is missing, and no registry has it", user, lost=False
                    )

    def look_at_holds(self) -> None:
        """Look whether holds can be read: one that cannot keeps a prune from deleting packs."""
        for key in self.below(HOLDS):
            if not self._store.holds.read(key.removeprefix(HOLDS)):
                self._reasons[key] = "it cannot be read, and may be anyone's hold"

    def below(self, prefix: str) -> list[str]:
        """Return the keys that begin with it."""
        return [key for key in self._sizes if key.startswith(prefix)]

    def look_alone(self, key: str, read: Callable[[Seal, str, bytes], object]) -> None:
        """Look whether a document that no other one names can be read.

        Nobody can take a lease that cannot, and what is left of an event is of no use.
        """
        with suppress(ObjectMissing):
            try:
                read(self._store.seal, key, self._store.backend.get(key))
            except Broken as error:
                with self._lock:
                    self._reasons[key] = str(error)
                    self._lost.add(key)

    def verified(self, bytes_read: int) -> Verified:
        """Return what is still true of what was found."""
        images = self.images()
        needed = {*map(_key, self.namers), *self.snapshots, *images, IDENTITY}
        kept = (HOLDS, LEASES, HISTORY, DAMAGED)
        unneeded = [it for it in self._sizes if it not in needed and not it.startswith(kept)]
        return Verified(
            findings=tuple(self._findings()),
            lost=tuple(sorted(filter(self._there, self._lost))),
            bad_frames={it: frozenset(bad) for it, bad in self._bad_frames.items()},
            suspects=tuple(self.suspects()),
            named=tuple(sorted(self.namers, key=lambda ref: ref.id)),
            snapshots=len(self.snapshots),
            images=len(images),
            bytes_read=bytes_read,
            unneeded=len(unneeded),
            unneeded_bytes=sum(self._sizes[key] for key in unneeded),
        )

    def _read(self, key: str) -> Manifest | StoredImage | None:
        """Return the snapshot or image of a key, if it is there and makes sense."""
        try:
            return load(self._store, key)
        except (SnapshotNotFound, ObjectMissing):
            return None
        except SnapshotDamaged as error:
            reason = str(error.fields["reason"])
        except Broken as error:
            reason = str(error)
        self._found(key, reason, key)
        return None

    def _look_at(self, key: str, found: Manifest | StoredImage) -> None:
        """Look whether the packs have what it consists of."""
        packs = []
        for ref in found.content.packs:
            listed = self._sizes.get(_key(ref), ref.size)
            if listed > ref.size:
                reason = f"it has {listed} bytes, not {ref.size}"
                self._found(_key(ref), reason, key, lost=False)
            try:
                packs.append(self._pack(replace(ref, used=0)))
            except Damaged as error:
                self._found(_key(ref), error.reason, key)
        if len(packs) < len(found.content.packs):
            return
        try:
            self._look_at_files(key, packs, found)
        except Damaged as error:
            self._found(key_of(error.pack), error.reason, key)
        except Broken as error:
            self._found(key, str(error), key)

    def _look_at_files(self, key: str, packs: list[Pack], it: Manifest | StoredImage) -> None:
        store = self._store
        files = pull.read_recipe(store.backend, packs, store.seal, it.content.recipe)
        if files.keys() != it.files.keys():
            raise Broken("its recipe has other files")
        for path, extents in files.items():
            parts = list(pull.parts(packs, extents))
            if sum(part.length for part in parts) != it.files[path]:
                raise Broken(f"its recipe has another size of {path}")
            for part in parts:
                ref = packs[part.pack].ref
                if part.frame and part.frame.number in self._bad_frames.get(ref, ()):
                    self._found(_key(ref), self._reasons[_key(ref)], key)

    def _opened(self, ref: PackRef) -> Pack:
        return pull.open_pack(self._store.backend, self._store.seal, ref)

    def _found(self, key: str, reason: str, owner: str, *, lost: bool = True) -> None:
        with self._lock:
            self._reasons.setdefault(key, reason)
            self._hit[key].add(owner)
            if lost:
                self._lost.add(owner)

    def _findings(self) -> Iterator[Finding]:
        """Yield what concerns anything that is still there."""
        namers: dict[str, set[str]] = defaultdict(set)
        for ref, owners in self.namers.items():
            namers[_key(ref)] |= owners
        for key, reason in sorted(self._reasons.items()):
            if any(map(self._there, namers[key] or self._hit[key] or {key})):
                hit = {user for it in self._hit[key] for user in self._using(it)}
                names = (it.removeprefix(SNAPSHOTS) for it in sorted(filter(self._there, hit)))
                yield Finding(key, reason, tuple(names))

    def _using(self, key: str) -> set[str]:
        """Return the snapshots that need what has this key: itself, or those with that image."""
        if key.startswith(SNAPSHOTS):
            return {key}
        _, image, _ = key.split("/")
        whole = {it for it in self.images() if it.split("/")[1] == image} - self._lost
        return set() if whole else self._users[image]

    def _exists(self, key: str) -> bool:
        with suppress(ObjectMissing):
            self._store.backend.get(key)
            return True
        return False


def _key(ref: PackRef) -> str:
    return key_of(ref.id)


def _each(threads: int, work: Callable[[T], None], items: Iterable[T]) -> None:
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, items):
            pass
