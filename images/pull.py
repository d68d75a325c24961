"""Chunks in packs become files again; every chunk is compared with its name on the way."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spotrun.images import recipe
from spotrun.images.backends.base import ObjectMissing, ObjectTooShort, Packs, Piece
from spotrun.images.meter import Meter
from spotrun.images.pack import Frame, Pack, PackRef, key_of
from spotrun.images.recipe import ZEROS, Content, Extents
from spotrun.images.seal import Broken, Seal

_READ_BYTES: Final = 8 << 20
"""Most bytes that are read from a pack at once."""
_GAP_BYTES: Final = 256 << 10
"""Frames that are not needed, but cheaper to read than to leave out."""
_WORKERS: Final = 8


class Damaged(Exception):
    """A pack is missing or broken."""

    def __init__(self, ref: PackRef, reason: object) -> None:
        """Name the pack."""
        super().__init__(f"pack {ref.id}: {reason}")
        self.pack = ref.id
        self.reason = str(reason)


@dataclass(frozen=True, slots=True)
class _Write:
    """Where in which file a part of a frame goes; numbers are bytes."""

    file: Path
    offset: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a file: bytes of a frame, or zeros."""

    pack: int
    """Its number in the snapshot; ZEROS: none."""
    frame: Frame | None
    start: int
    """Where in the frame it begins."""
    length: int


def open_pack(store: Packs, seal: Seal, ref: PackRef) -> Pack:
    """Read the tail of a pack, or raise Damaged."""
    if not ref.sound:
        raise Damaged(ref, "there can be no such pack")
    try:
        return Pack(seal, ref, bytes(store.read(key_of(ref.id), ref.size - ref.tail, ref.tail)))
    except (Broken, ObjectMissing, ObjectTooShort) as error:
        raise Damaged(ref, _said(error)) from error


def open_packs(store: Packs, seal: Seal, refs: Iterable[PackRef]) -> list[Pack]:
    """Read the tails of packs, or raise Damaged."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        return list(pool.map(lambda ref: open_pack(store, seal, ref), refs))


def pull(
    store: Packs,
    seal: Seal,
    content: Content,
    folder: Path,
    sizes: dict[str, int],
    *,
    meter: Meter,
) -> None:
    """Write those files of a content below `folder`, or raise Damaged or Broken."""
    Opened(store, seal, content).pull(folder, sizes, meter=meter)


class Opened:
    """A content whose packs are open and whose recipe is read, to write its files in turns."""

    def __init__(self, store: Packs, seal: Seal, content: Content) -> None:
        """Open it, or raise Damaged or Broken."""
        self._store = store
        self._seal = seal
        self._packs = open_packs(store, seal, content.packs)
        self._files = read_recipe(store, self._packs, seal, content.recipe)

    def pull(self, folder: Path, sizes: dict[str, int], *, meter: Meter) -> None:
        """Write those files below `folder`, or raise Damaged or Broken."""
        if not sizes.keys() <= self._files.keys():
            raise Broken("its recipe lacks files that its manifest has")
        writes: dict[int, dict[int, list[_Write]]] = defaultdict(lambda: defaultdict(list))
        for path, size in sizes.items():
            _plan(self._packs, self._files[path], _made(folder, path, size), size, writes)
        _fetch(self._store, self._packs, self._seal, writes, meter)


def read_recipe(
    store: Packs, packs: list[Pack], seal: Seal, extents: Extents
) -> dict[str, Extents]:
    """Read which chunks each file consists of, or raise Damaged or Broken."""
    found = []
    for part in parts(packs, extents):
        if part.frame is None:
            raise Broken("its recipe has no content")
        pack, frame = packs[part.pack], part.frame
        raw = read_frame(store, pack, frame, seal)
        found.append(raw[part.start : part.start + part.length])
    return recipe.decode(b"".join(found))


def parts(packs: list[Pack], extents: Extents) -> Iterator[Part]:
    """Yield the parts of frames that follow each other in a file, or raise Damaged or Broken."""
    for number, first, count in recipe.triples(extents):
        if number == ZEROS:
            yield Part(ZEROS, None, 0, count)
            continue
        for frame in _frames_of(packs, number, first, count):
            head = frame.chunks[max(first - frame.first, 0)]
            tail = frame.chunks[min(first + count - frame.first, len(frame.chunks)) - 1]
            yield Part(number, frame, head.start, tail.start + tail.length - head.start)


def _made(folder: Path, path: str, size: int) -> Path:
    """Make a file of that size, in a folder that is made if need be."""
    place = folder / path
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise Broken(f"its file {path!r} lies elsewhere")
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _file(place, os.O_CREAT | os.O_EXCL) as fd:
        os.truncate(fd, size)
    return place


def _plan(
    packs: list[Pack],
    extents: Extents,
    file: Path,
    size: int,
    writes: dict[int, dict[int, list[_Write]]],
) -> None:
    """Note where each frame's chunks go; zeros are left as the hole that they are."""
    offset = 0
    for part in parts(packs, extents):
        if part.frame:
            write = _Write(file, offset, part.start, part.length)
            writes[part.pack][part.frame.number].append(write)
        offset += part.length
    if offset != size:
        raise Broken("its recipe and its manifest say different sizes of a file")


def _frames_of(packs: list[Pack], number: int, first: int, count: int) -> Sequence[Frame]:
    if not 0 <= number < len(packs):
        raise Broken("its recipe names a pack that its manifest does not")
    try:
        return packs[number].frames_of(first, count)
    except Broken as error:
        raise Damaged(packs[number].ref, error) from error


def _fetch(
    store: Packs,
    packs: list[Pack],
    seal: Seal,
    writes: dict[int, dict[int, list[_Write]]],
    meter: Meter,
) -> None:
    def one(pack: Pack, frames: list[Frame], targets: dict[int, list[_Write]]) -> None:
        start, last = frames[0].offset, frames[-1]
        view = memoryview(_read(store, pack, start, last.offset + last.stored - start))
        meter.add(moved=len(view))
        for frame in frames:
            at = frame.offset - start
            raw = open_frame(pack, frame, view[at : at + frame.stored], seal, tags=False)
            for it in targets[frame.number]:
                _write(it.file, raw[it.start : it.start + it.length], it.offset)
                meter.add(done=it.length)

    with ThreadPoolExecutor(_WORKERS) as pool:
        futures = [
            pool.submit(one, packs[number], group, targets)
            for number, targets in writes.items()
            for group in _groups([packs[number].frames[at] for at in sorted(targets)])
        ]
        try:
            for future in futures:
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _groups(frames: list[Frame]) -> Iterator[list[Frame]]:
    """Yield the frames that are read together."""
    group: list[Frame] = []
    for frame in frames:
        if group:
            end = group[-1].offset + group[-1].stored
            length = frame.offset + frame.stored - group[0].offset
            if frame.offset - end > _GAP_BYTES or length > _READ_BYTES:
                yield group
                group = []
        group.append(frame)
    if group:
        yield group


def read_frame(store: Packs, pack: Pack, frame: Frame, seal: Seal) -> memoryview:
    """Read a frame of a pack, and return its chunks, or raise Damaged."""
    return open_frame(pack, frame, _read(store, pack, frame.offset, frame.stored), seal)


def open_frame(
    pack: Pack, frame: Frame, stored: Piece, seal: Seal, *, tags: bool = True
) -> memoryview:
    """Return the chunks of a frame, each proved to be what its name says.

    With `tags`, hashes that only prove the same again are looked at, too.
    """
    try:
        raw = pack.open(frame, stored, named=not tags)
    except Broken as error:
        raise Damaged(pack.ref, error) from error
    for chunk in frame.chunks:
        if seal.name(raw[chunk.start : chunk.start + chunk.length]) != chunk.name:
            raise Damaged(pack.ref, "a chunk is not what its name says")
    return raw


def _read(store: Packs, pack: Pack, offset: int, length: int) -> Piece:
    try:
        return store.read(key_of(pack.ref.id), offset, length)
    except (ObjectMissing, ObjectTooShort) as error:
        raise Damaged(pack.ref, _said(error)) from error


def _write(file: Path, data: memoryview, offset: int) -> None:
    """Open the file each time: a snapshot may have more files than a process may have open."""
    with _file(file) as fd:
        while data:
            done = os.pwrite(fd, data, offset)
            data, offset = data[done:], offset + done


@contextmanager
def _file(path: Path, flags: int = 0) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _said(error: Exception) -> str:
    if isinstance(error, Broken):
        return str(error)
    return "it is missing" if isinstance(error, ObjectMissing) else "it is too short"
