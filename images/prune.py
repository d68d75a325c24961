"""Prune: snapshots that a policy does not keep go, then images and packs that nothing needs.

Safe beside pushes and restores of any host, however their steps and ours follow each other:

1. A hold is made (holds.py). Images and packs are listed: nothing else is ever deleted.
2. All manifests and images are read: what they need stays.
3. The holds of others are listed, then the snapshots and images. Is there a hold that counts,
   images and packs stay. Is there anything new, it is read, and 3. begins again. So whoever has
   come before is known by what they have committed. Who comes later finds our hold, and builds
   upon nothing but packs of snapshots; and what they store has new names.
4. Images are deleted before the packs that they need.

Snapshots are removed at any time, by anyone: it harms no push that builds upon them, since that is
seen in 3. Killed anywhere, the next prune does the rest.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from types import MappingProxyType
from typing import Final

from spotrun.images.backends.base import Entry, ObjectMissing
from spotrun.images.care import Policy
from spotrun.images.errors import SnapshotDamaged, SnapshotNotFound, StoreUnavailable
from spotrun.images.holds import LIFE, Held, Hold, Purpose
from spotrun.images.lease import PREFIX as LEASES
from spotrun.images.manifest import SNAPSHOT_ID
from spotrun.images.meter import Meter
from spotrun.images.recipe import Content
from spotrun.images.retention import Committed, Reason, Verdict, judge
from spotrun.images.runspec import JOB_NAME
from spotrun.images.seal import Broken
from spotrun.images.store import IMAGES, SNAPSHOTS, Store, Tell, new_hold

PACKS: Final = "packs/"
PACK_KEY: Final = re.compile(r"packs/([0-9a-f]{2})/(\1[0-9a-f]{62})")
SNAPSHOT_KEY: Final = re.compile(rf"{SNAPSHOTS}({JOB_NAME.pattern})/({SNAPSHOT_ID.pattern})")
IMAGE_KEY: Final = re.compile(rf"{IMAGES}([0-9a-f]+)/[0-9a-f]+")
_BATCH: Final = 1000
"""Most objects that are deleted at once."""
_REPAIR: Final = "`spotrun repair` takes it out of the way"

Step = Callable[[str], AbstractContextManager[Tell | None]]
"""Is told what begins, and ends with it; gives who is told how far that has come."""


@dataclass(frozen=True, slots=True)
class InTheWay:
    """Somebody who reads or writes, so that images and packs stay."""

    purpose: Purpose | None
    """None: the hold cannot be read."""
    job: str
    host: str
    since: datetime
    """When it was last written, by the store's clock; it counts for a day."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What has gone, or would go."""

    dry_run: bool
    snapshots: tuple[Verdict, ...]
    """All of them; those without a reason have gone."""
    images: int
    packs: int
    bytes: int
    """Of the packs that have gone."""
    packs_left: int
    bytes_left: int
    in_the_way: tuple[InTheWay, ...]


def prune(
    store: Store,
    policy: Policy,
    *,
    host: str,
    job: str | None = None,
    packs: Collection[str] | None = None,
    staying: Mapping[str, Reason] = MappingProxyType({}),
    dry_run: bool = False,
    step: Step = lambda _: nullcontext(),
) -> Pruned:
    """Delete snapshots that the policy does not keep, and what nothing needs any more.

    The policy is for one `job`, or for each; those that are `staying`, by id, do so anyway. Of
    packs, at most those with the ids `packs` go.
    SnapshotDamaged: what a snapshot needs cannot be told, so no pack was deleted. A dry run writes
    nothing, judges ages by this host's clock, and tells what would go if nobody were in the way.
    """
    mine = None if dry_run else new_hold(Purpose.PRUNE)
    if mine:
        store.holds.write(mine, Hold(Purpose.PRUNE, job or "", host))
    try:
        with step("look") as tell:
            work = _Work(store, mine, packs)
            verdicts = work.judge(policy, job, staying, tell)
        if not dry_run:
            gone = [f"{SNAPSHOTS}{it.job}/{it.snapshot}" for it in verdicts if not it.reasons]
            with step("delete snapshots") as tell:
                _delete(store, {key: work.sizes[key] for key in gone}, tell)
            work.settle()
        images, unneeded = work.unneeded()
    except BaseException:
        if mine:
            store.holds.end(mine)
        raise
    if mine:  # a delete that fails may be done yet: then the hold stays
        _delete(store, {key: work.sizes[key] for key in images})
        with step("delete packs") as tell:
            _delete(store, {it.key: it.size for it in unneeded}, tell)
        store.holds.end(mine)
    size, all_sizes = sum(it.size for it in unneeded), sum(it.size for it in work.packs)
    return Pruned(
        dry_run=dry_run,
        snapshots=tuple(verdicts),
        images=len(images),
        packs=len(unneeded),
        bytes=size,
        packs_left=len(work.packs) - len(unneeded),
        bytes_left=all_sizes - size,
        in_the_way=tuple(work.in_the_way),
    )


class _Work:
    """What one prune has learned of the store."""

    def __init__(self, store: Store, mine: str | None, only: Collection[str] | None) -> None:
        """List what may go, and look who is in the way."""
        self.in_the_way: list[InTheWay] = []
        self._store = store
        self._mine = mine
        self._only = only
        listed = [it for prefix in (IMAGES, PACKS) for it in store.backend.list(prefix)]
        self.sizes = {it.key: it.size for it in listed}
        """Bytes of all objects that were listed, by key."""
        self.packs = [it for it in listed if PACK_KEY.fullmatch(it.key)]
        self._images = {it.key for it in listed if IMAGE_KEY.fullmatch(it.key)}
        self._read: set[tuple[str, str]] = set()
        self._needed_packs: set[str] = set()
        self._needed_images: set[str] = set()
        self._contents: dict[str, Content | Broken] = {}
        """Of each image that was read, by its key."""
        self._alone = True
        """No other prune was ever seen, which may be about to delete what is here."""
        self._now = datetime.now(UTC)
        lapsed = self._look()
        if mine:
            store.holds.end(*lapsed)

    def judge(
        self, policy: Policy, job: str | None, staying: Mapping[str, Reason], tell: Tell | None
    ) -> list[Verdict]:
        """Apply the policy, and learn what the snapshots that it keeps need."""
        entries = [
            (entry, match)
            for entry in self._store.backend.list(SNAPSHOTS)
            if (match := SNAPSHOT_KEY.fullmatch(entry.key))
        ]
        found = [Committed(match[1], match[2], entry.modified) for entry, match in entries]
        snapshots = {entry.key: entry.size for entry, _ in entries}
        self.sizes |= snapshots
        if job and not any(it.job == job for it in found):
            raise SnapshotNotFound(which=f"of job {job!r}", store=self._store)
        verdicts = judge(
            found,
            policy,
            now=self._now,
            job=job,
            staying=staying,
            uncommitted=_uncommitted(self._store, found),
        )
        gone = {(it.job, it.snapshot) for it in verdicts if not it.reasons}
        meter = Meter(sum(snapshots.values()), tell)
        self._learn(((it.job, it.snapshot) for it in verdicts), gone, meter)
        self._learn_images(self._fresh_images())
        self.unneeded()  # one that cannot be read is better found before anything has gone
        return verdicts

    def settle(self) -> None:
        """Learn what has come meanwhile, until nothing has and nobody is there."""
        while True:
            self._look()
            snapshots = [names for names in self._store.ids() if names not in self._read]
            images = self._fresh_images()
            if self.in_the_way or not (snapshots or images):
                return
            self._learn(snapshots)
            self._learn_images(images)

    def unneeded(self) -> tuple[list[str], list[Entry]]:
        """Return the keys of images, and the packs, that are to go."""
        if self._mine and self.in_the_way:
            return [], []
        images = self._unneeded_images()
        needed = set(self._needed_packs)
        for key in self._contents.keys() - images:
            content = self._contents[key]
            if not isinstance(content, Broken):
                needed.update(ref.id for ref in content.packs)
        names = [(it, it.key.rpartition("/")[2]) for it in self.packs]
        wanted = {name for _, name in names} if self._only is None else self._only
        return images, [it for it, name in names if name not in needed and name in wanted]

    def _look(self) -> list[str]:
        """Learn who is in the way, and return the holds that count no longer."""
        held = list(self._store.holds.held())
        own = [it.modified for it in held if it.id == self._mine]
        if self._mine and not own:
            reason = "it does not list what was just written"
            raise StoreUnavailable(store=self._store, reason=reason)
        self._now = own[0] if own else self._now
        others = [it for it in held if it.id != self._mine]
        counting = [it for it in others if self._now - it.modified < LIFE]
        holds = {it: self._store.holds.read(it.id) for it in counting}
        if None in holds.values():  # it has ended meanwhile, or cannot be read
            there = {it.id for it in self._store.holds.held()}
            holds = {it: hold for it, hold in holds.items() if hold or it.id in there}
        self.in_the_way = [
            _in_the_way(it, hold)
            for it, hold in holds.items()
            if hold is None or hold.purpose in {Purpose.PUSH, Purpose.PULL}
        ]
        self._alone &= all(hold and hold.purpose is not Purpose.PRUNE for hold in holds.values())
        left = [it.id for it, hold in holds.items() if hold and hold.purpose is Purpose.LEFT]
        return [*left, *(it.id for it in others if it not in counting)]

    def _learn(
        self,
        names: Iterable[tuple[str, str]],
        without: Collection[tuple[str, str]] = (),
        meter: Meter | None = None,
    ) -> None:
        """Read manifests, and keep in mind what they need, but for those that are to go."""
        for job, snapshot, found in self._store.examined(names):
            if meter:
                size = self.sizes[f"{SNAPSHOTS}{job}/{snapshot}"]
                meter.add(done=size, moved=size)
            if isinstance(found, SnapshotDamaged):
                found.add_note(_REPAIR)
                raise found
            if found and (job, snapshot) not in without:
                self._read.add((job, snapshot))
                self._needed_images.add(found.image.id)
                self._needed_packs.update(ref.id for ref in found.content.packs)

    def _fresh_images(self) -> list[str]:
        found = (it.key for it in self._store.backend.list(IMAGES))
        return [key for key in found if IMAGE_KEY.fullmatch(key) and key not in self._contents]

    def _learn_images(self, keys: Iterable[str]) -> None:
        for key in keys:
            with suppress(ObjectMissing):
                try:
                    self._contents[key] = self._store.load_image(key).content
                except Broken as error:
                    self._contents[key] = error

    def _unneeded_images(self) -> list[str]:
        """Return the keys of those that are to go: one of each image that is needed stays.

        All of them if others prune, too: which one those leave is not known.
        """
        found: dict[str, list[str]] = defaultdict(list)
        for key in sorted(self._contents):
            found[key.split("/")[1]].append(key)
        gone: list[str] = []
        for image, keys in found.items():
            whole = [key for key in keys if not isinstance(self._contents[key], Broken)]
            if image in self._needed_images:
                if not whole:
                    error = SnapshotDamaged(
                        snapshot=f"with image {image}", reason=self._contents[keys[0]]
                    )
                    error.add_note(_REPAIR)
                    raise error
                stay = whole[:1] if self._alone else whole
                keys = [key for key in keys if key not in stay]  # noqa: PLW2901 # what is left
            gone += (key for key in keys if key in self._images)
        return gone


def _uncommitted(store: Store, found: Iterable[Committed]) -> set[tuple[str, str]]:
    """Return job and id of the snapshots that their jobs' leases do not name, or not yet."""
    leased = {it.key.removeprefix(LEASES) for it in store.backend.list(LEASES)}
    names = {(it.job, it.snapshot) for it in found if it.job in leased}
    jobs = {job for job, _ in names}
    return names - {(job, snapshot) for job in jobs for snapshot in store.committed(job)}


def _in_the_way(held: Held, hold: Hold | None) -> InTheWay:
    if hold is None:
        return InTheWay(None, "", "", held.modified)
    return InTheWay(hold.purpose, hold.job, hold.host, held.modified)


def _delete(store: Store, sizes: Mapping[str, int], tell: Tell | None = None) -> None:
    """Delete a part at a time: what is done stays done, and each request has its patience."""
    meter, todo = Meter(sum(sizes.values()), tell), iter(sizes)
    while batch := list(islice(todo, _BATCH)):
        store.backend.delete(batch)
        gone = sum(sizes[key] for key in batch)
        meter.add(done=gone, moved=gone)
