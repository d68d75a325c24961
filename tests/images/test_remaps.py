"""The names that CRIU gives files for the time of a dump are found in its images."""

import struct
from pathlib import Path

import pytest

from spotrun.images.remaps import links

_COMMON = 0x54564319
_FILES, _REMAPS = 0x56303138, 0x59133954
_LINKED, _GHOST = 0, 1


def _number(field: int, value: int) -> bytes:
    return bytes([field << 3, value])


def _text(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2, len(value)]) + value


def _image(path: Path, magic: int, *messages: bytes) -> None:
    body = b"".join(struct.pack("<I", len(it)) + it for it in messages)
    path.write_bytes(struct.pack("<II", _COMMON, magic) + body)


def _regular(number: int, name: bytes) -> bytes:
    """Return an entry as CRIU 4 writes it, with a fixed64 field in it that nobody reads."""
    inner = _number(1, number) + _number(2, 0) + _text(6, name) + bytes([12 << 3 | 1]) + bytes(8)
    return _number(1, 1) + _number(2, number) + _text(3, inner)


def _remap(original: int, remap: int, kind: int | None) -> bytes:
    last = b"" if kind is None else _number(3, kind)
    return _number(1, original) + _number(2, remap) + last


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Give a dump with a file that was linked, a ghost and one that has its name."""
    files = [
        _regular(1, b"/bin/sh"),
        _regular(2, b"/dev/shm/sem.tXyZ"),
        _regular(17, b"dev/shm/link_remap.17"),
        _number(1, 2) + _number(2, 4) + _text(5, b"no regular file"),
    ]
    _image(tmp_path / "files.img", _FILES, *files)
    return tmp_path


@pytest.mark.parametrize("kind", [_LINKED, None])
def test_linked_file_is_found_by_its_lost_name(dump: Path, kind: int | None) -> None:
    """Both names are those in the container; `linked` is what it is by default."""
    _image(dump / "remap-fpath.img", _REMAPS, _remap(1, 9, _GHOST), _remap(2, 17, kind))
    assert links(dump) == {"/dev/shm/sem.tXyZ": "/dev/shm/link_remap.17"}


def test_dump_in_which_all_files_have_names_has_no_links(dump: Path) -> None:
    """Then there is no list of them, or one of ghosts, whose content is in the dump."""
    assert links(dump) == {}
    _image(dump / "remap-fpath.img", _REMAPS, _remap(1, 9, _GHOST))
    assert links(dump) == {}


@pytest.mark.parametrize("harm", [_FILES, 0])
def test_image_of_another_kind_is_refused(dump: Path, harm: int) -> None:
    """A name that is missed here is a job that cannot be restored."""
    _image(dump / "remap-fpath.img", harm, _remap(2, 17, _LINKED))
    with pytest.raises(ValueError, match="not an image file of kind"):
        links(dump)
