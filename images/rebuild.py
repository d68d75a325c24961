"""What can be saved of packs with bad frames: their good chunks, and copies of the others.

Such a pack gets a successor, and what names the pack then names the successor: so that nothing new
is built upon bad chunks, and so that the pack can go.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Final

from spotrun.images import pull, recipe
from spotrun.images.pack import (
    CHUNK_BYTES,
    FRAME_BYTES,
    Chunk,
    Frame,
    Pack,
    PackRef,
    PackWriter,
    key_of,
)
from spotrun.images.pull import Damaged
from spotrun.images.recipe import ZEROS, Content, pack_of, place
from spotrun.images.seal import Broken
from spotrun.images.store import Store

_LEVEL: Final = 1

Files = dict[str, list[int]]
"""The places of each file's chunks; packs are numbered as in the content that it was."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a chunk can be read."""

    pack: Pack
    frame: Frame
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class _Successor:
    """What there will be of a pack."""

    numbers: dict[int, int]
    """New numbers of the chunks that are saved."""
    frames: list[list[_Place]]


class Rebuild:
    """Packs with bad frames, and what can be saved of them."""

    def __init__(
        self, store: Store, bad: Mapping[PackRef, frozenset[int]], packs: Iterable[PackRef]
    ) -> None:
        """Look for the chunks of the bad frames in all packs; nothing is written."""
        self._store = store
        opened: dict[PackRef, Pack] = {}
        for ref in bad:
            with suppress(Damaged):  # it has gone meanwhile
                opened[ref] = self._open(ref)
        wanted = {
            chunk.name
            for ref, pack in opened.items()
            for frame in bad[ref]
            for chunk in pack.frames[frame].chunks
        }
        copies: dict[bytes, _Place] = {}
        for ref in packs if wanted else ():
            with suppress(Damaged):
                copies |= _copies(self._open(ref), wanted, bad.get(ref, frozenset()))
        self._successors = {
            ref.id: _successor(pack, bad[ref], copies) for ref, pack in opened.items()
        }
        self._written: dict[str, PackRef] = {}
        self._read = lru_cache(1)(self._read_frame)

    def plan(self, content: Content) -> Files | None:
        """Return what the files consist of when successors are named; None: some of it is lost."""
        store, planned = self._store, Files()
        try:
            packs = pull.open_packs(store.backend, store.seal, content.packs)
            files = pull.read_recipe(store.backend, packs, store.seal, content.recipe)
            for path, extents in files.items():
                planned[path] = []
                for number, first, count in recipe.triples(extents):
                    if number == ZEROS:
                        planned[path].append(-count)
                        continue
                    successor = self._successors.get(content.packs[number].id)
                    for chunk in range(first, first + count):
                        new = successor.numbers[chunk] if successor else chunk
                        planned[path].append(place(number, new))
        except (Damaged, Broken, KeyError):
            return None
        return planned

    def write(self, content: Content, files: Files) -> Content:
        """Store the successors that a plan needs, and return the content that names them."""
        used = sorted({pack_of(it) for it in chain.from_iterable(files.values()) if it >= 0})
        numbers = {number: at for at, number in enumerate(used)}
        packs = [self._named(content.packs[number]) for number in used]
        encoded = recipe.encode({path: recipe.extents(it, numbers) for path, it in files.items()})
        writer = PackWriter(self._store.seal)
        for at in range(0, len(encoded), FRAME_BYTES):
            frame = encoded[at : at + FRAME_BYTES]
            chunks = [frame[it : it + CHUNK_BYTES] for it in range(0, len(frame), CHUNK_BYTES)]
            names = [(self._store.seal.name(it), len(it)) for it in chunks]
            writer.add(names, frame, _LEVEL)
        count = writer.chunks
        own = replace(self._put(writer), used=len(encoded))
        return Content((*packs, own), (len(packs), 0, count))

    def _named(self, ref: PackRef) -> PackRef:
        """Return the successor of a pack, which is written if need be, or the pack itself."""
        if ref.id not in self._successors:
            return ref
        if ref.id not in self._written:
            writer = PackWriter(self._store.seal)
            for places in self._successors[ref.id].frames:
                pieces = [self._chunk(it) for it in places]
                names = [(it.chunk.name, it.chunk.length) for it in places]
                writer.add(names, b"".join(pieces), _LEVEL)
            self._written[ref.id] = self._put(writer)
        return replace(self._written[ref.id], used=ref.used)

    def _put(self, writer: PackWriter) -> PackRef:
        ref, pieces = writer.finish()
        self._store.backend.put(key_of(ref.id), pieces)
        return ref

    def _chunk(self, it: _Place) -> memoryview:
        return self._read(it.pack, it.frame)[it.chunk.start : it.chunk.start + it.chunk.length]

    def _read_frame(self, pack: Pack, frame: Frame) -> memoryview:
        return pull.read_frame(self._store.backend, pack, frame, self._store.seal)

    def _open(self, ref: PackRef) -> Pack:
        return pull.open_pack(self._store.backend, self._store.seal, ref)


def _copies(pack: Pack, wanted: set[bytes], bad: frozenset[int]) -> dict[bytes, _Place]:
    return {
        chunk.name: _Place(pack, frame, chunk)
        for frame in pack.frames
        if frame.number not in bad
        for chunk in frame.chunks
        if chunk.name in wanted
    }


def _successor(pack: Pack, bad: frozenset[int], copies: Mapping[bytes, _Place]) -> _Successor:
    numbers: dict[int, int] = {}
    frames = []
    for frame in pack.frames:
        saved = []
        for at, chunk in enumerate(frame.chunks, frame.first):
            own = None if frame.number in bad else _Place(pack, frame, chunk)
            if found := own or copies.get(chunk.name):
                numbers[at] = len(numbers)
                saved.append(found)
        if saved:
            frames.append(saved)
    return _Successor(numbers, frames)
