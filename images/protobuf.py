"""CRIU's image files, as far as spotrun reads them.

A file has two 32-bit magic numbers, then protobuf messages, each behind its 32-bit length; the
`.proto` files of CRIU have the fields.
"""

import struct
from collections.abc import Iterator
from typing import Final

_COMMON_MAGIC: Final = 0x54564319
_HEAD: Final = struct.Struct("<II")
_LENGTH: Final = struct.Struct("<I")
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED_64: 8, _FIXED_32: 4}

Fields = dict[int, int | bytes]
"""The numbers and texts of a message by field; of one that is repeated, the last."""


def after_head(raw: bytes, magic: int) -> int:
    """Return where the messages begin, or raise ValueError if it is another kind of file."""
    if len(raw) < _HEAD.size:
        return len(raw)
    if _HEAD.unpack_from(raw) != (_COMMON_MAGIC, magic):
        raise ValueError(f"not an image file of kind {magic:#x}")
    return _HEAD.size


def messages(raw: bytes, at: int) -> Iterator[tuple[bytes, int]]:
    """Yield the whole messages, and where each ends."""
    while at <= len(raw) - _LENGTH.size:
        start = at + _LENGTH.size
        at = start + _LENGTH.unpack_from(raw, at)[0]
        if at > len(raw):
            return
        yield raw[start:at], at


def fields(message: bytes) -> Fields:
    """Return what a message says, or raise ValueError or LookupError."""
    found: Fields = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            found[tag >> 3], at = _varint(message, at)
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise ValueError(f"no kind of field: {kind}")
        found[tag >> 3], at = message[at : at + length], at + length
    if at > len(message):
        raise ValueError("a message is cut off")
    return found


def numbers(message: bytes) -> dict[int, int]:
    """Return the fields of a message that has numbers only, or raise ValueError or LookupError."""
    found = fields(message)
    if any(isinstance(it, bytes) for it in found.values()):
        raise ValueError("the message has more than numbers")
    return {key: it for key, it in found.items() if isinstance(it, int)}


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 # protobuf's mark of a number's last byte
            return value, at
