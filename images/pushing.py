"""One push into a store: what it builds upon is held, what has arrived is noted."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spotrun.images import pull, push
from spotrun.images.ahead import Ahead
from spotrun.images.errors import StoreUnavailable
from spotrun.images.holds import Hold, Purpose
from spotrun.images.known import Known
from spotrun.images.lease import Lease
from spotrun.images.manifest import Manifest
from spotrun.images.meter import Meter
from spotrun.images.pack import Pack, PackRef
from spotrun.images.pull import Damaged
from spotrun.images.push import Source
from spotrun.images.recipe import Content
from spotrun.images.runspec import ImageRef

if TYPE_CHECKING:
    from spotrun.images.store import Store, StoredImage, Tell

_READERS: Final = 16
_NEIGHBOURS: Final = 32
"""Other jobs whose newest snapshot is looked at for chunks that are the same."""


class Push:
    """One push into a store: it holds what it builds upon, and remembers what has arrived."""

    def __init__(self, store: "Store", hold_id: str, job: str, host: str) -> None:
        """Make the hold first, then look what is there."""
        self.moved = 0
        self._store = store
        self._id = hold_id
        self._ahead: Ahead | None = None
        self._meter = Meter(0)
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
        self, folder: Path, files: dict[str, int], *, threads: int | None, tell: "Tell | None"
    ) -> Content:
        """Store files below `folder`, given their sizes; what is there already is not sent."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            self._meter = Meter(0)
        self._meter.expect(sum(files.values()), tell)
        try:
            if ahead is not None:
                return ahead.finish(files)
            return push.push(
                self._store.packs,
                self._store.seal,
                folder,
                files,
                known=self._known,
                meter=self._meter,
                threads=threads,
            )
        finally:
            self.moved += self._meter.moved

    @contextmanager
    def ahead(self, folder: Path, place: str, expected: int) -> Iterator[None]:
        """Begin to store the dump of so many bytes that is being written to `folder/place`.

        `store`, for all files below `folder`, is then to end it, or `stop`.
        """
        self._meter = Meter(expected)
        self._ahead = Ahead(self._push, folder, place, expected)
        try:
            yield
        except BaseException:
            self._ahead.stop()
            raise
        self._ahead.written()

    def stop(self) -> None:
        """Store no more of what was begun ahead."""
        if self._ahead:
            self._ahead.give_up()

    def image(self, image: ImageRef) -> "StoredImage | None":
        """Return an image that the store has and keeps; None: it must be stored, maybe again."""
        return None if self._pruned else self._store.image(image)

    def publish(self, manifest: Manifest, held: Lease | None = None) -> None:
        """Commit, unless a prune may have taken our packs away after a day of silence."""
        if self._store.holds.read(self._id) is None:
            raise StoreUnavailable(store=self._store, reason="its hold of this push has ended")
        self._store.publish(manifest, held)

    def end(self) -> None:
        """Let others delete again, after the commit."""
        self._store.end(self._id)

    def _push(self, source: Source) -> Content:
        packs, seal = self._store.packs, self._store.seal
        return push.push_from(packs, seal, source, known=self._known, meter=self._meter)

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
