"""Files are cut where what stays the same is found again, and wholly."""

import io
import tarfile
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.images import cuts
from spotrun.images.cuts import SPAN_BYTES, spans
from spotrun.images.pack import CHUNK_BYTES
from spotrun.images.pages import PAGE
from tests.fakes.stores import page_files, written

_KB = 1024


def _lengths(folder: Path, name: str) -> list[int]:
    """Return the sizes of a file's chunks, in order; spans must follow each other."""
    found, end = list[int](), 0
    for span in spans(folder, [name]):
        assert (span.path, span.offset) == (name, end)
        assert 0 < sum(span.lengths) <= SPAN_BYTES
        end += sum(span.lengths)
        found += span.lengths
    assert end == (folder / name).stat().st_size
    assert all(0 < length <= CHUNK_BYTES for length in found)
    return found


@pytest.mark.parametrize(
    "size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, SPAN_BYTES, SPAN_BYTES + 1]
)
def test_file_is_cut_evenly(tmp_path: Path, size: int) -> None:
    """The last chunk is what is left; an empty file has none."""
    written(tmp_path, {"log": bytes(size)})
    whole, rest = divmod(size, CHUNK_BYTES)
    assert _lengths(tmp_path, "log") == [CHUNK_BYTES] * whole + [rest] * bool(rest)


def test_files_are_cut_in_the_order_given(tmp_path: Path) -> None:
    """Spans of one file follow each other, so that a reader need not open it twice."""
    written(tmp_path, {"a": bytes(SPAN_BYTES + 5), "b/c": b"1", "d": b""})
    found = [(span.path, span.offset) for span in spans(tmp_path, ["b/c", "d", "a"])]
    assert found == [("b/c", 0), ("a", 0), ("a", SPAN_BYTES)]


def test_pages_are_cut_by_their_address(tmp_path: Path) -> None:
    """At multiples of 64 KiB of address space, across holes, wherever they are in the file."""
    runs = [
        (0x10000 - 2 * PAGE, bytes(3 * PAGE)),
        (0x10000 + 9 * PAGE, bytes(PAGE)),
        (0x50000, bytes(40 * PAGE)),
    ]
    page_files(tmp_path / "criu", 1, runs)
    expected = [2 * PAGE, 2 * PAGE, CHUNK_BYTES, CHUNK_BYTES, 8 * PAGE]
    assert _lengths(tmp_path, "criu/pages-1.img") == expected


def test_pages_of_one_window_that_are_too_many_are_cut(tmp_path: Path) -> None:
    """Two mappings may claim the same addresses."""
    page_files(tmp_path, 1, [(0x10000, bytes(16 * PAGE)), (0x10000, bytes(2 * PAGE))])
    assert _lengths(tmp_path, "pages-1.img") == [CHUNK_BYTES, 2 * PAGE]


@settings(max_examples=30, deadline=None, database=None)
@given(runs=st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 99)), max_size=20))
def test_pages_at_any_address_are_cut_wholly(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, int]]
) -> None:
    """Nothing is left out, nothing too large."""
    folder = tmp_path_factory.mktemp("dump")
    page_files(folder, 1, [(page * PAGE, bytes(count * PAGE)) for page, count in runs])
    _lengths(folder, "pages-1.img")


def test_page_file_without_a_map_is_cut_evenly(tmp_path: Path) -> None:
    """As any file is."""
    written(tmp_path, {"pages-1.img": bytes(CHUNK_BYTES + 1)})
    assert _lengths(tmp_path, "pages-1.img") == [CHUNK_BYTES, 1]


def _archive(members: Sequence[tuple[str, bytes]], form: int = tarfile.PAX_FORMAT) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=form) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return raw.getvalue()


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_large_member_begins_a_chunk(tmp_path: Path, form: int) -> None:
    """So its chunks are the same wherever it lies in the archive."""
    large = Random(1).randbytes(200 * _KB)
    name = "n" * (200 if form != tarfile.USTAR_FORMAT else 90)
    for before in ([], [("small", b"x" * 700)]):
        raw = _archive([*before, (name, large), ("after", b"y")], form)
        written(tmp_path, {"0.tar": raw})
        begins = [0, *accumulate(_lengths(tmp_path, "0.tar"))]
        at = begins.index(raw.index(large[:512]))
        chunks = [raw[begins[it] : begins[it + 1]] for it in range(at, at + 4)]
        assert b"".join(chunks)[: len(large)] == large
        assert [len(it) for it in chunks] == [CHUNK_BYTES] * 3 + [8 * _KB]


def test_small_members_stay_together(tmp_path: Path) -> None:
    """A cut at each would make more chunks than it is worth."""
    raw = _archive([(str(number), b"z" * 1000) for number in range(200)])
    written(tmp_path, {"0.tar": raw})
    assert set(_lengths(tmp_path, "0.tar")[:-1]) == {CHUNK_BYTES}


_HEADER = _archive([("m", b"")])[:512]


def _sized(field: bytes) -> bytes:
    return _HEADER[:124] + field.ljust(12, b"\0") + _HEADER[136:]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no archive",
        bytes(5 * _KB),
        b"\xff" * 5 * _KB,
        _sized(b"77777777777") + bytes(_KB),
        _HEADER * 8 + _sized(b"-7777") + bytes(_KB),
        _HEADER * 8 + _sized(b"-1") + bytes(_KB),
        _sized(b"\x80" + b"\xff" * 11) + bytes(_KB),
        _archive([("large", bytes(200 * _KB))])[: 100 * _KB],
        _archive([("large", bytes(200 * _KB))])[:-5],
    ],
    ids=["empty", "text", "zeros", "ones", "huge", "back", "minus", "huge-256", "cut", "odd"],
)
def test_archive_that_makes_no_sense_is_cut_wholly(tmp_path: Path, raw: bytes) -> None:
    """It is stored as it is all the same."""
    written(tmp_path, {"0.tar": raw})
    _lengths(tmp_path, "0.tar")


def test_size_beyond_octal_is_read() -> None:
    """GNU tar writes that of a member over 8 GiB as a binary number."""
    assert cuts._member_size(b"\x80" + (9 << 30).to_bytes(11)) == 9 << 30  # noqa: SLF001 # such an archive is large
