"""Where the files of a snapshot are cut into chunks, so that what stays the same is found again.

- Memory pages: at multiples of 64 KiB of their virtual address. CRIU leaves holes out, so that
  offsets in its page files move with every change.
- Archives: where the content of a large member begins, then every 64 KiB.
- All else: every 64 KiB.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from spotrun.images.pack import CHUNK_BYTES
from spotrun.images.pages import Run, page_runs

SPAN_BYTES: Final = 4 << 20
"""Most bytes of a span."""
_BLOCK: Final = 512
_SIZE: Final = slice(124, 136)
_BASE_256: Final = 0x80


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a file that one worker reads at once."""

    path: str
    """Relative to the folder that is stored."""
    offset: int
    lengths: tuple[int, ...]
    """Of its chunks, in bytes."""


def spans(folder: Path, names: Iterable[str]) -> Iterator[Span]:
    """Yield the parts of the named files below `folder`, each file from its begin to its end."""
    runs: dict[Path, dict[str, list[Run]]] = {}
    for name in names:
        path = folder / name
        if path.parent not in runs:
            runs[path.parent] = page_runs(path.parent)
        yield from grouped(name, _lengths(path, runs[path.parent].get(path.name)))


def _lengths(path: Path, runs: list[Run] | None) -> Iterator[int]:
    if runs is not None:
        return of_pages(runs)
    if path.suffix == ".tar":
        return _of_archive(path)
    return of_units(path.stat().st_size)


def grouped(name: str, lengths: Iterator[int]) -> Iterator[Span]:
    """Yield the parts of a file, given the sizes of its chunks."""
    start = size = 0
    group: list[int] = []
    for length in lengths:
        if size + length > SPAN_BYTES:
            yield Span(name, start, tuple(group))
            start, size, group = start + size, 0, []
        group.append(length)
        size += length
    if group:
        yield Span(name, start, tuple(group))


def of_units(size: int) -> Iterator[int]:
    """Cut so many bytes evenly."""
    for _ in range(size // CHUNK_BYTES):
        yield CHUNK_BYTES
    if rest := size % CHUNK_BYTES:
        yield rest


def of_pages(runs: Iterable[Run]) -> Iterator[int]:
    """Cut where the next page lies in another 64 KiB of address space."""
    window, size = -1, 0
    for start, length in runs:
        at, end = start, start + length
        while at < end:
            if at // CHUNK_BYTES != window and size:
                yield size
                size = 0
            window = at // CHUNK_BYTES
            step = min(end, (window + 1) * CHUNK_BYTES) - at
            if size + step > CHUNK_BYTES:  # the same window again, of another mapping
                yield size
                size = 0
            at, size = at + step, size + step
    if size:
        yield size


def _of_archive(path: Path) -> Iterator[int]:
    """Cut at large members; what makes no sense as an archive is cut evenly."""
    at, size = 0, path.stat().st_size
    with path.open("rb") as file:
        for start, length in _large_members(file, size):
            yield from of_units(start - at)
            yield from of_units(length)
            at = start + length
    yield from of_units(size - at)


def _large_members(file: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """Yield offset and padded size of the content of each member that is worth a cut."""
    at = 0
    while at + _BLOCK <= size:
        file.seek(at)
        length = _member_size(file.read(_BLOCK)[_SIZE])
        at += _BLOCK
        if length is None or at + length > size:
            return
        if length >= CHUNK_BYTES:
            yield at, length
        at += length


def _member_size(field: bytes) -> int | None:
    """Return the size of a member in whole blocks; None: the field is no size."""
    try:
        size = (
            int.from_bytes(field[1:])
            if field[0] & _BASE_256
            else int(field.strip(b"\0 ") or b"0", 8)
        )
    except (ValueError, IndexError):
        return None
    return None if size < 0 else -(-size // _BLOCK) * _BLOCK
