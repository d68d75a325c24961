"""Which chunks a store is known to have, and where."""

import threading
from collections.abc import Callable
from typing import Final

from spotrun.images.pack import Pack, PackRef
from spotrun.images.recipe import pack_of, place

_SPARSE: Final = 0.2
"""A pack of which less than this share is still used is not used again, so that it can go."""


class Known:
    """Chunks by name; may be asked and told by several threads."""

    def __init__(self, on_arrival: Callable[[PackRef], None] | None = None) -> None:
        """Know nothing; `on_arrival` is called with each pack that has been stored."""
        self.packs: dict[int, PackRef] = {}
        """By number, those that the store has."""
        self._places: dict[bytes, int] = {}
        self._numbers = 0
        self._lock = threading.Lock()
        self._on_arrival = on_arrival

    def reserve(self) -> int:
        """Return the number of a pack to come."""
        with self._lock:
            self._numbers += 1
            return self._numbers - 1

    def arrived(self, number: int, ref: PackRef) -> None:
        """Learn that a reserved pack is in the store."""
        self.packs[number] = ref
        if self._on_arrival:
            self._on_arrival(ref)

    def learn(self, pack: Pack, used: int | None = None) -> None:
        """Learn of a pack in the store, of which the last snapshots use so many bytes."""
        if used is not None and used < pack.raw * _SPARSE:
            return
        number = self.reserve()
        self.packs[number] = pack.ref
        for frame in pack.frames:
            for at, chunk in enumerate(frame.chunks, frame.first):
                self._places.setdefault(chunk.name, place(number, at))

    def forget_lost(self) -> None:
        """Forget chunks of packs that did not arrive, when no more will."""
        lost = [name for name, it in self._places.items() if pack_of(it) not in self.packs]
        for name in lost:
            del self._places[name]

    def find(self, name: bytes) -> int | None:
        """Return the place of a chunk, or None."""
        return self._places.get(name)

    def claim(self, name: bytes, mine: int) -> int:
        """Return the place of a chunk, which is the one given if nobody else was faster."""
        return self._places.setdefault(name, mine)
