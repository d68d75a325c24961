"""Repair: what is damaged is set aside, so that all else works again.

- A pack with bad frames gets a successor (rebuild.py): snapshots that need only what can be saved
  of it stay.
- Snapshots and images that cannot be read to their end are set aside: `damaged/KEY` has the object
  that KEY had. The newest snapshot of a job is a good one again.
- Broken packs that nothing needs any more are deleted, as a prune does it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace

from spotrun.images.backends.base import ObjectChanged, ObjectMissing
from spotrun.images.care import Policy
from spotrun.images.errors import SnapshotDamaged, SnapshotNotFound
from spotrun.images.holds import Hold, Purpose
from spotrun.images.manifest import encode
from spotrun.images.prune import PACK_KEY, InTheWay, prune
from spotrun.images.rebuild import Rebuild
from spotrun.images.seal import Broken, seal_document
from spotrun.images.store import Store, StoredImage, Tell, new_hold
from spotrun.images.verify import DAMAGED, Finding, load, verify


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was done, or would be."""

    applied: bool
    findings: tuple[Finding, ...]
    """What was wrong before."""
    rebuilt: tuple[str, ...]
    """Keys of the snapshots and images that have got successors of packs."""
    set_aside: tuple[str, ...]
    """Keys of those that are lost."""
    packs: int
    """Broken ones that were deleted."""
    left: tuple[Finding, ...]
    """What is still wrong."""
    in_the_way: tuple[InTheWay, ...]
    """Who kept packs from being deleted."""


def repair(
    store: Store, *, host: str, read_data: bool, apply: bool, tell: Tell | None = None
) -> Repaired:
    """Save what can be, and set aside what is lost; unless `apply`, only tell what would be done.

    Without `read_data` only what `verify` finds without it is repaired.
    """
    seen = verify(store, read_data=read_data, tell=tell)
    rebuild = Rebuild(store, seen.bad_frames, seen.named)
    with _holding(store, host) if apply and seen.suspects else nullcontext():
        rebuilt = tuple(key for key in seen.suspects if _rebuilt(store, rebuild, key, apply=apply))
    lost = tuple(key for key in seen.lost if key not in rebuilt)
    done = Repaired(apply, seen.findings, rebuilt, lost, 0, seen.findings, ())
    if not apply:
        return done
    for key in lost:
        _set_aside(store, key)
    broken = {match[2] for it in seen.findings if (match := PACK_KEY.fullmatch(it.key))}
    pruned = prune(store, Policy(), host=host, packs=broken)
    left = verify(store, read_data=False).findings
    return replace(done, packs=pruned.packs, left=left, in_the_way=pruned.in_the_way)


@contextmanager
def _holding(store: Store, host: str) -> Iterator[None]:
    """Keep what is stored from being deleted before it is named."""
    hold = new_hold(Purpose.PUSH)
    store.holds.write(hold, Hold(Purpose.PUSH, "", host))
    try:
        yield
    finally:
        store.holds.end(hold)


def _rebuilt(store: Store, rebuild: Rebuild, key: str, *, apply: bool) -> bool:
    """Let a snapshot or an image name the successors of packs; False: they do not have it all."""
    try:
        found = load(store, key)
    except (SnapshotNotFound, SnapshotDamaged, ObjectMissing, Broken):
        return False
    files = rebuild.plan(found.content)
    if files is None or not apply:
        return files is not None
    content = rebuild.write(found.content, files)
    if isinstance(found, StoredImage):
        store.put_image(replace(found, content=content))
        store.backend.delete([key])
        return True
    with suppress(ObjectMissing, ObjectChanged):  # it has been removed meanwhile
        _, tag = store.backend.get_tagged(key)
        document = encode(replace(found, content=content))
        store.backend.replace(key, seal_document(store.seal, key, document), tag)
    return True


def _set_aside(store: Store, key: str) -> None:
    with suppress(ObjectMissing):
        store.backend.put(DAMAGED + key, store.backend.get(key))
    store.backend.delete([key])
