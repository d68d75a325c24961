"""CRIU's page maps tell where memory pages belong; one that cannot be read does no harm."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from spotrun.images.pages import PAGE, page_runs
from tests.fakes.stores import page_files

_RUNS = [(0x400000, bytes(3 * PAGE)), (0x7FFF_FFFF_F000, bytes(PAGE)), (0x500000, bytes(2 * PAGE))]
_FOUND = [(0x400000, 3 * PAGE), (0x7FFF_FFFF_F000, PAGE), (0x500000, 2 * PAGE)]
_HEAD = struct.pack("<II", 0x54564319, 0x56084025)
_OF_PAGES_1 = b"\x02\0\0\0\x08\x01"


def test_runs_are_in_the_order_of_the_file(tmp_path: Path) -> None:
    """Each page map names its page file."""
    page_files(tmp_path, 1, _RUNS)
    page_files(tmp_path, 7, [(0, bytes(PAGE))])
    assert page_runs(tmp_path) == {"pages-1.img": _FOUND, "pages-7.img": [(0, PAGE)]}


def test_folder_without_a_dump_has_no_runs(tmp_path: Path) -> None:
    """Nor has one that is not there."""
    assert page_runs(tmp_path) == {}
    assert page_runs(tmp_path / "none") == {}


def _entry(*fields: int) -> bytes:
    body = bytes(fields)
    return struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    ("entry", "runs"),
    [
        (_entry(0x08, 0, 0x10, 2), [(0, 2 * PAGE)]),
        (_entry(0x08, 0, 0x10, 2, 0x18, 0), [(0, 2 * PAGE)]),
        (_entry(0x08, 0, 0x10, 2, 0x18, 1) + _entry(0x08, 5, 0x10, 2), [(5, 2 * PAGE)]),
        (_entry(0x08, 0, 0x10, 2, 0x20, 1) + _entry(0x08, 5, 0x10, 2, 0x20, 4), [(5, 2 * PAGE)]),
        (_entry(0x08, 0, 0x10, 0, 0x20, 4, 0x28, 2), [(0, 2 * PAGE)]),
    ],
    ids=["no-flags", "not-in-parent", "in-parent", "flag-in-parent", "64-bit"],
)
def test_pages_that_are_elsewhere_take_no_room(
    tmp_path: Path, entry: bytes, runs: list[tuple[int, int]]
) -> None:
    """Of old and new CRIU's ways to say so."""
    (tmp_path / "pagemap-1.img").write_bytes(_HEAD + _OF_PAGES_1 + entry)
    (tmp_path / "pages-1.img").write_bytes(bytes(2 * PAGE))
    assert page_runs(tmp_path) == {"pages-1.img": runs}


@pytest.mark.parametrize(
    "harm",
    [
        lambda _: b"",
        lambda raw: raw[:7],
        lambda raw: raw[:8],
        lambda raw: raw[:-1],
        lambda raw: raw[:-6],
        lambda raw: raw[4:],
        lambda raw: raw + b"\xff" * 9,
        lambda raw: raw + _entry(0x08),
        lambda raw: raw + _entry(0x0A, 0),
        lambda raw: raw + _entry(0x20, 4),
        lambda raw: raw + _entry(0x08, 1, 0x10, 1, 0x20, 4),
        lambda _: _HEAD + _entry() + _entry(0x08, 0, 0x10, 6),
        lambda _: _HEAD + _entry(0x10, 1) + _entry(0x08, 0, 0x10, 6),
    ],
)
def test_page_map_that_makes_no_sense_is_left_out(
    tmp_path: Path, harm: Callable[[bytes], bytes]
) -> None:
    """The page file is then cut like any other."""
    page_files(tmp_path, 1, _RUNS)
    page_files(tmp_path, 2, _RUNS)
    place = tmp_path / "pagemap-1.img"
    place.write_bytes(harm(place.read_bytes()))
    assert page_runs(tmp_path) == {"pages-2.img": _FOUND}


def test_page_file_of_another_length_is_left_out(tmp_path: Path) -> None:
    """So is one that is missing."""
    page_files(tmp_path, 1, _RUNS)
    page_files(tmp_path, 2, _RUNS)
    with (tmp_path / "pages-1.img").open("ab") as file:
        file.write(bytes(PAGE))
    (tmp_path / "pages-2.img").unlink()
    assert page_runs(tmp_path) == {}
