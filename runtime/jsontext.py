"""Changes to a JSON document of somebody else's that leave the rest of its text as it is."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[\ufeff \t\r\n]*")
"""With the byte order mark that editors put first, and Docker passes over."""
_INDENT: Final = "  "
"""Of a document that has none."""


@dataclass(frozen=True, slots=True)
class _Member:
    """Where a member of an object stands in the text: its key, its value, and their end."""

    key: str
    start: int
    value: int
    end: int


def with_member(text: str, keys: Sequence[str], value: object) -> str:
    """Return the object's text with a member set; objects on the way to it are made."""
    if not text.strip():
        return json.dumps(_nested(keys, value), indent=_INDENT) + "\n"
    top = _skip(text, 0)
    unit = _gap(text, top).rpartition("\n")[2] or _INDENT
    return _set(text, top, keys, value, unit)


def without_member(text: str, keys: Sequence[str]) -> str:
    """Return the object's text without a member, and without the objects that it leaves empty."""
    top = _skip(text, 0)
    found = _member(text, top, keys[0])
    if found is None:
        return text
    if keys[1:]:
        inner = text[found.value : found.end]
        rest = without_member(inner, keys[1:]) if inner.startswith("{") else inner
        if rest == inner or _members(rest, 0):
            return text[: found.value] + rest + text[found.end :]
    return _cut(text, top, found)


def _set(text: str, top: int, keys: Sequence[str], value: object, unit: str) -> str:
    found = _member(text, top, keys[0])
    if found is None:
        return _add(text, top, keys[0], _nested(keys[1:], value), unit)
    if keys[1:] and text[found.value] == "{":
        return _set(text, found.value, keys[1:], value, unit)
    new = _dump(_nested(keys[1:], value), _gap(text, top), unit)
    return text[: found.value] + new + text[found.end :]


def _add(text: str, top: int, key: str, value: object, unit: str) -> str:
    """Add a member behind the others, in the style of the first one."""
    members, gap = _members(text, top), _gap(text, top)
    if members:
        end, lead, tail = members[-1].end, "," + (gap if "\n" in gap else " "), ""
    else:
        outer = "\n" + text[text.rfind("\n", 0, top) + 1 : top].partition('"')[0]
        gap = (outer if outer.isspace() else "\n") + unit
        end, lead, tail = top + 1, gap, gap.removesuffix(unit)
    new = f"{lead}{json.dumps(key)}: {_dump(value, gap, unit)}{tail}"
    return text[:end] + new + text[end if members else _skip(text, end) :]


def _cut(text: str, top: int, gone: _Member) -> str:
    """Remove a member with the comma before it, or, of the first one, that behind it."""
    members = _members(text, top)
    at = members.index(gone)
    if at:
        return text[: members[at - 1].end] + text[gone.end :]
    if members[1:]:
        return text[: gone.start] + text[members[1].start :]
    return text[: top + 1] + text[_skip(text, gone.end) :]


def _member(text: str, top: int, key: str) -> _Member | None:
    """Return the last member of that name, which is the one that counts."""
    return next((it for it in reversed(_members(text, top)) if it.key == key), None)


def _members(text: str, top: int) -> list[_Member]:
    """Return the members of the object whose brace stands at `top`."""
    found: list[_Member] = []
    at = _skip(text, top + 1)
    while text[at] != "}":
        key, colon = _DECODER.raw_decode(text, at)
        value = _skip(text, _skip(text, colon) + 1)
        _, end = _DECODER.raw_decode(text, value)
        found.append(_Member(key, at, value, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def _gap(text: str, top: int) -> str:
    """Return what stands between an object's brace and its first member."""
    return text[top + 1 : _skip(text, top + 1)]


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _nested(keys: Sequence[str], value: object) -> object:
    for key in reversed(keys):
        value = {key: value}
    return value


def _dump(value: object, gap: str, unit: str) -> str:
    """Write a value on as many lines as its surroundings have it."""
    if "\n" not in gap:
        return json.dumps(value)
    return json.dumps(value, indent=unit).replace("\n", gap)
