"""Files that had lost their name when they were dumped, and have others.

CRIU gives such a file a new name for the time of the dump, `link_remap.N` beside the lost one, and
its restore links that to the lost one again; `remap-file-path.proto` and `regfile.proto` of CRIU
have the fields.
"""

from pathlib import Path
from typing import Final

from spotrun.images.protobuf import Fields, after_head, fields, messages

_FILES: Final = ("files.img", 0x56303138)
_REMAPS: Final = ("remap-fpath.img", 0x59133954)
_REGULAR: Final = 3
_ID, _NAME = 1, 6
_ORIGINAL, _REMAP, _TYPE = 1, 2, 3
_LINKED: Final = 0


def links(folder: Path) -> dict[str, str]:
    """Return the names that CRIU gave in a dump, by the lost ones; ValueError: it is none."""
    remaps = [it for it in _entries(folder, *_REMAPS) if it.get(_TYPE, _LINKED) == _LINKED]
    if not remaps:
        return {}
    regular = (it[_REGULAR] for it in _entries(folder, *_FILES) if _REGULAR in it)
    found = [fields(it) for it in regular if isinstance(it, bytes)]
    names = {it[_ID]: "/" + _text(it[_NAME]).lstrip("/") for it in found}
    return {names[it[_ORIGINAL]]: names[it[_REMAP]] for it in remaps}


def _entries(folder: Path, name: str, magic: int) -> list[Fields]:
    path = folder / name
    raw = path.read_bytes() if path.exists() else b""
    return [fields(message) for message, _ in messages(raw, after_head(raw, magic))]


def _text(value: int | bytes) -> str:
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)
