"""What the files of a snapshot consist of: extents of chunks in packs, and zeros.

A place is a pack's number in the snapshot's list of packs and a chunk's number in that pack; zeros
have a length instead. A recipe is stored as chunks itself, so that a manifest stays small.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from spotrun.images.pack import PackRef
from spotrun.images.seal import Broken

ZEROS: Final = -1
"""In place of a pack's number: the extent is zeros, as many bytes as its third number says."""
_PACK_SHIFT: Final = 32

Extents = tuple[int, ...]
"""Three numbers an extent: pack, first chunk, how many chunks."""


@dataclass(frozen=True, slots=True)
class Content:
    """Where the bytes of a snapshot's files are."""

    packs: tuple[PackRef, ...]
    recipe: Extents
    """The chunks of the recipe."""


def place(pack: int, chunk: int) -> int:
    """Return one number for a chunk's place; zeros are negative numbers of bytes."""
    return pack << _PACK_SHIFT | chunk


def pack_of(place: int) -> int:
    """Return the pack's number of a place."""
    return place >> _PACK_SHIFT


def extents(places: Iterable[int], numbers: Mapping[int, int]) -> Extents:
    """Join places that follow each other; `numbers` gives each pack the number it gets."""
    joined: list[int] = []
    for it in places:
        if it < 0:
            pack, chunk, count = ZEROS, 0, -it
        else:
            pack, chunk, count = numbers[it >> _PACK_SHIFT], it & 0xFFFFFFFF, 1
        follows = joined and joined[-3] == pack
        if follows and (pack == ZEROS or joined[-2] + joined[-1] == chunk):
            joined[-1] += count
        else:
            joined += (pack, chunk, count)
    return tuple(joined)


def triples(extents: Extents) -> Iterator[tuple[int, int, int]]:
    """Return pack, first chunk and count of each extent, or raise Broken."""
    if len(extents) % 3 or min(extents[2::3], default=1) < 1:
        raise Broken("its recipe makes no sense: an extent has three numbers, the last positive")
    numbers = iter(extents)
    return zip(numbers, numbers, numbers, strict=True)


def encode(files: Mapping[str, Extents]) -> bytes:
    """Return a recipe as MessagePack: a map from path to extents."""
    return msgspec.msgpack.encode(files)


def decode(raw: bytes) -> dict[str, Extents]:
    """Read a recipe, or raise Broken."""
    try:
        return msgspec.msgpack.decode(raw, type=dict[str, Extents])
    except msgspec.DecodeError as error:
        raise Broken(f"its recipe makes no sense: {error}") from None
