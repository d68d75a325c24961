"""Files become chunks in packs: what the store knows already is not stored again.

Workers read spans, hash and look up their chunks, and fill a pack each with what is new; full packs
are sent while the workers go on, a few at a time, so that memory stays bounded and a slow store
slows the workers down.
"""

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from spotrun.images import cuts, recipe
from spotrun.images.backends.base import Packs
from spotrun.images.cuts import SPAN_BYTES, Span
from spotrun.images.known import Known
from spotrun.images.meter import Meter
from spotrun.images.pack import (
    CHUNK_BYTES,
    FRAME_BYTES,
    FRAME_CHUNKS,
    PACK_BYTES,
    PackRef,
    PackWriter,
    key_of,
)
from spotrun.images.recipe import Content, place
from spotrun.images.seal import Seal

_FAST: Final = -1
_SMALL: Final = 1
"""zstd levels: when the processor is the limit, and when the store is."""
_SENDERS: Final = 4
_WAITING: Final = 2
"""Full packs that may wait for a sender."""
_BYTES_A_WORKER: Final = 32 << 20
"""Less is not worth another worker, who fills a pack of its own."""
_ZEROS: Final = bytes(CHUNK_BYTES)
_GLANCE: Final = 64


def push(
    store: Packs,
    seal: Seal,
    folder: Path,
    sizes: dict[str, int],
    *,
    known: Known,
    meter: Meter,
    threads: int | None = None,
) -> Content:
    """Store the named files below `folder`, given their sizes, and return where they are.

    So many `threads` take their time to compress well; without a number all processors hurry.
    `known` learns of the packs that it is told of as they arrive, also if this fails in the end.
    """
    source = Source(folder, cuts.spans(folder, sorted(sizes)), lambda: sizes, sum(sizes.values()))
    return push_from(store, seal, source, known=known, meter=meter, threads=threads)


def push_from(
    store: Packs,
    seal: Seal,
    source: "Source",
    *,
    known: Known,
    meter: Meter,
    threads: int | None = None,
) -> Content:
    """Do as `push` does with files that need not be whole yet."""
    count = max(1, min(threads or os.cpu_count() or 1, source.expected // _BYTES_A_WORKER))
    work = _Work(seal, source.folder, known, meter)
    try:
        with (
            _Senders(store, known, meter, _SMALL if threads else _FAST) as senders,
            ThreadPoolExecutor(count) as workers,
        ):
            todo = enumerate(source.spans)
            _all_done([workers.submit(work.on, todo, senders) for _ in range(count)], work)
            return work.finish(source.sizes(), senders)
    except BaseException:
        known.forget_lost()
        raise


@dataclass(frozen=True, slots=True)
class Source:
    """Files to push."""

    folder: Path
    spans: Iterator[Span]
    """All their parts, one after the other; it may wait for them. One thread at a time asks."""
    sizes: Callable[[], dict[str, int]]
    """Returns the paths and sizes of all files; it is called after the last span."""
    expected: int
    """Bytes that there will be, more or less."""


def _all_done(futures: Sequence[Future[None]], work: "_Work") -> None:
    """Wait for the workers; if one fails, or on Ctrl-C, none goes on."""
    try:
        wait(futures, return_when=FIRST_EXCEPTION)
    finally:
        work.stopped = True
    for future in futures:
        future.result()


@dataclass(frozen=True, slots=True)
class _Done:
    """The places of a span's chunks."""

    span: Span
    places: list[int]


class _Work:
    """What the workers share."""

    def __init__(self, seal: Seal, folder: Path, known: Known, meter: Meter) -> None:
        self.stopped = False
        self.seal = seal
        self.known = known
        self.meter = meter
        self._folder = folder
        self._done: dict[int, _Done] = {}
        self._lock = threading.Lock()
        self._idle: list[_Filler] = []

    def on(self, todo: Iterator[tuple[int, Span]], senders: "_Senders") -> None:
        """Be one worker."""
        buffer, filler, files = memoryview(bytearray(SPAN_BYTES)), self._filler(senders), _Files()
        with files:
            while not self.stopped:
                with self._lock:
                    number, span = next(todo, (-1, None))
                if span is None:
                    break
                view = files.read(self._folder / span.path, span.offset, sum(span.lengths), buffer)
                self._done[number] = _Done(span, self._places(span, view, filler))
                self.meter.add(done=len(view))
        with self._lock:
            self._idle.append(filler)

    def finish(self, sizes: dict[str, int], senders: "_Senders") -> Content:
        """Store the recipe, send the last packs, and return the content."""
        filler = self._filler(senders)
        for idle in self._idle:
            idle.close()
        places: dict[str, list[int]] = {path: [] for path in sizes}
        lengths: dict[int, int] = {}
        _unchanged(sizes, (done.span for done in self._done.values()))
        for _, done in sorted(self._done.items()):
            places[done.span.path] += done.places
            lengths.update(zip(done.places, done.span.lengths, strict=True))
        packs = sorted({recipe.pack_of(it) for it in lengths if it >= 0})
        numbers = {number: at for at, number in enumerate(packs)}
        encoded = recipe.encode({path: recipe.extents(it, numbers) for path, it in places.items()})
        stored = []
        for at in range(0, len(encoded), CHUNK_BYTES):
            piece = memoryview(encoded)[at : at + CHUNK_BYTES]
            stored.append(filler.take(piece))
            lengths[stored[-1]] = len(piece)
            numbers.setdefault(recipe.pack_of(stored[-1]), len(numbers))
        filler.close()
        senders.drain()
        used = _used(lengths)
        refs = tuple(replace(self.known.packs[it], used=used[it]) for it in numbers)
        return Content(refs, recipe.extents(stored, numbers))

    def _filler(self, senders: "_Senders") -> "_Filler":
        with self._lock:
            return self._idle.pop() if self._idle else _Filler(self.seal, self.known, senders)

    def _places(self, span: Span, view: memoryview, filler: "_Filler") -> list[int]:
        places, at = [], 0
        for length in span.lengths:
            piece = view[at : at + length]
            at += length
            places.append(-length if _is_zero(piece) else filler.take(piece))
        return places


class _Filler:
    """Puts what is new into packs; for one thread at a time."""

    def __init__(self, seal: Seal, known: Known, senders: "_Senders") -> None:
        self._seal = seal
        self._known = known
        self._senders = senders
        self._names: list[tuple[bytes, int]] = []
        self._raw = bytearray()
        self._pack = PackWriter(seal)
        self.number = known.reserve()

    def take(self, piece: memoryview) -> int:
        """Return the place of a chunk, which is stored unless it is known."""
        name = self._seal.name(piece)
        found = self._known.find(name)
        if found is not None:
            return found
        if len(self._raw) + len(piece) > FRAME_BYTES or len(self._names) == FRAME_CHUNKS:
            self._close_frame()
        mine = place(self.number, self._pack.chunks + len(self._names))
        found = self._known.claim(name, mine)
        if found == mine:
            self._names.append((name, len(piece)))
            self._raw += piece
        return found

    def close(self) -> None:
        """Send what is left."""
        self._close_frame()
        if self._pack.chunks:
            self._send()

    def _close_frame(self) -> None:
        if not self._names:
            return
        self._pack.add(self._names, self._raw, self._senders.level)
        self._names, self._raw = [], bytearray()
        if self._pack.size >= PACK_BYTES:
            self._send()

    def _send(self) -> None:
        ref, pieces = self._pack.finish()
        self._senders.send(self.number, ref, pieces)
        self._pack = PackWriter(self._seal)
        self.number = self._known.reserve()


class _Senders:
    """Send full packs, a few at a time; who has one too many waits."""

    def __init__(self, store: Packs, known: Known, meter: Meter, level: int) -> None:
        self.level = level
        """zstd level for the next frame: a store that is waited for is worth a better one."""
        self._store = store
        self._known = known
        self._meter = meter
        self._room = threading.Semaphore(_SENDERS + _WAITING)
        self._pool = ThreadPoolExecutor(_SENDERS)
        self._sent: list[Future[None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def send(self, number: int, ref: PackRef, pieces: Sequence[bytes]) -> None:
        """Send a pack, soon; if an earlier one failed, say so."""
        if not self._room.acquire(blocking=False):
            self.level = _SMALL
            self._room.acquire()
        for future in self._sent:
            if future.done():
                future.result()
        self._sent.append(self._pool.submit(self._put, number, ref, pieces))

    def drain(self) -> None:
        """Wait until all packs have arrived."""
        for future in self._sent:
            future.result()

    def _put(self, number: int, ref: PackRef, pieces: Sequence[bytes]) -> None:
        try:
            self._store.put(key_of(ref.id), pieces)
        finally:
            self._room.release()
        self._known.arrived(number, ref)
        self._meter.add(moved=ref.size)


class _Files:
    """Open files of one worker: spans of the same file follow each other."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            os.close(self._fd)

    def read(self, path: Path, offset: int, length: int, buffer: memoryview) -> memoryview:
        """Fill the begin of the buffer; a file that has become shorter is an OSError."""
        if path != self._path:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            if self._path is not None:
                os.close(self._fd)
            self._path, self._fd = path, fd
        view, at = buffer[:length], 0
        while at < length:
            got = os.preadv(self._fd, [view[at:]], offset + at)
            if not got:
                raise OSError(f"{path} ended while it was read")
            at += got
        return view


def _unchanged(sizes: Mapping[str, int], spans: Iterable[Span]) -> None:
    """Refuse files that are not as long as the manifest will say."""
    read = dict.fromkeys(sizes, 0)
    for span in spans:
        read[span.path] = read.get(span.path, 0) + sum(span.lengths)
    for path, length in read.items():
        size = sizes.get(path, 0)
        if length != size:
            raise OSError(f"{path} has changed its size from {size} to {length} bytes")


def _used(lengths: Mapping[int, int]) -> dict[int, int]:
    """Return how many bytes of each pack are used, given the places in use and their lengths."""
    used: dict[int, int] = defaultdict(int)
    for it, length in lengths.items():
        if it >= 0:
            used[recipe.pack_of(it)] += length
    return used


def _is_zero(piece: memoryview) -> bool:
    """Compare as bytes: memoryviews compare item by item."""
    if piece[:_GLANCE].tobytes() != _ZEROS[: min(_GLANCE, len(piece))]:
        return False
    return piece.tobytes() == _ZEROS[: len(piece)]
