"""Where CRIU's memory pages belong: the page maps beside its `pages-N.img` files.

An image file has two 32-bit magic numbers, then protobuf messages, each behind its 32-bit length;
`pagemap.proto` of CRIU has the fields.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PAGE: Final = 4096
_COMMON_MAGIC: Final = 0x54564319
_PAGEMAP_MAGIC: Final = 0x56084025
_HEAD: Final = struct.Struct("<II")
_LENGTH: Final = struct.Struct("<I")
_PAGES_ID: Final = 1
_VADDR, _NR_PAGES, _IN_PARENT, _FLAGS, _NR_PAGES_64 = 1, 2, 3, 4, 5
_PRESENT: Final = 1 << 2
_VARINT: Final = 0

Run = tuple[int, int]
"""Virtual address of pages that follow each other, and how many bytes they are."""


def page_runs(folder: Path) -> dict[str, list[Run]]:
    """Return, for the page files of a dump, the runs of pages in the order of the file.

    A file whose page map cannot be read, or does not account for each of its bytes, is left out.
    """
    found: dict[str, list[Run]] = {}
    for path in sorted(folder.glob("pagemap-*.img")):
        try:
            pages_id, runs = _read(path.read_bytes())
        except (ValueError, LookupError, struct.error):
            continue
        pages = folder / f"pages-{pages_id}.img"
        if pages.is_file() and pages.stat().st_size == sum(length for _, length in runs):
            found[pages.name] = runs
    return found


def _read(raw: bytes) -> tuple[int, list[Run]]:
    """Return the number of the page file, and its runs."""
    if _HEAD.unpack_from(raw) != (_COMMON_MAGIC, _PAGEMAP_MAGIC):
        raise ValueError("not a page map")
    messages = _messages(raw, _HEAD.size)
    head = _fields(next(messages, b""))
    runs = []
    for message in messages:
        entry = _fields(message)
        flags = entry.get(_FLAGS, 0 if entry.get(_IN_PARENT) else _PRESENT)
        if flags & _PRESENT:
            pages = entry.get(_NR_PAGES_64) or entry[_NR_PAGES]
            runs.append((entry[_VADDR], pages * PAGE))
    return head[_PAGES_ID], runs


def _messages(raw: bytes, at: int) -> Iterator[bytes]:
    while at < len(raw):
        (length,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size + length
        yield raw[at - length : at]


def _fields(message: bytes) -> dict[int, int]:
    """Return the numbers of a message by field; a field of another kind is a ValueError."""
    found, at = {}, 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 != _VARINT:
            raise ValueError("a page map has numbers only")
        found[tag >> 3], at = _varint(message, at)
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 # protobuf's mark of a number's last byte
            return value, at
