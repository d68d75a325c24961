"""A dump is cut while it is written just as it is cut when it is whole."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.images import cuts, growing
from spotrun.images.cuts import SPAN_BYTES, Span
from spotrun.images.pack import CHUNK_BYTES
from spotrun.images.pages import PAGE
from tests.fakes.stores import page_files

_RUNS = [(0x40000000, bytes(700 * PAGE)), (0x50001000, bytes(5 * PAGE)), (0x60000000, bytes(PAGE))]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "_PAUSE", 0.001)


def _whole(folder: Path) -> list[Span]:
    """Cut what is there."""
    numbers = range(1, len(list(folder.glob("criu/pages-*.img"))) + 1)
    return list(cuts.spans(folder, [f"criu/pages-{number}.img" for number in numbers]))


class _Dump:
    """Files that are made whole, then written a part at a time."""

    def __init__(self, folder: Path) -> None:
        self.content = {path.name: path.read_bytes() for path in (folder / "criu").iterdir()}
        for path in (folder / "criu").iterdir():
            path.unlink()
        self.written = threading.Event()
        self._folder = folder / "criu"

    def write(self, name: str, size: int | None = None) -> None:
        """Have a file's first bytes there, by default all."""
        (self._folder / name).write_bytes(self.content[name][:size])


def _next(spans: Iterator[Span]) -> Span | None:
    return next(spans, None)


def test_dump_that_is_whole_is_cut_at_once(tmp_path: Path) -> None:
    """All its page files, in the order of their numbers."""
    for number in (1, 2, 10):
        page_files(tmp_path / "criu", number, _RUNS)
    for number in range(3, 10):
        page_files(tmp_path / "criu", number, [])
    found = list(growing.spans(tmp_path, "criu", lambda: True))
    assert found == _whole(tmp_path)
    assert {span.path for span in found} == {f"criu/pages-{it}.img" for it in (1, 2, 10)}


def test_folder_without_a_dump_has_no_parts(tmp_path: Path) -> None:
    """As when it has failed at once."""
    assert list(growing.spans(tmp_path, "criu", lambda: True)) == []


def test_part_is_there_as_soon_as_its_map_is(tmp_path: Path) -> None:
    """While the dump goes on."""
    page_files(tmp_path / "criu", 1, [(0x40000000, bytes(SPAN_BYTES)), *_RUNS])
    expected, dump = _whole(tmp_path), _Dump(tmp_path)
    found = growing.spans(tmp_path, "criu", dump.written.is_set)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(_next, found)
        dump.write("pages-1.img", SPAN_BYTES + CHUNK_BYTES)
        dump.write("pagemap-1.img", 12)
        assert not first.done()
        dump.write("pagemap-1.img", -len(_RUNS))
        dump.write("pages-1.img")
        assert first.result(10) == expected[0]
        dump.write("pagemap-1.img")
        dump.written.set()
    assert list(found) == expected[1:]


def test_file_is_over_when_the_next_one_is_there(tmp_path: Path) -> None:
    """Its last part does not wait for the end of the dump."""
    for number in (1, 2):
        page_files(tmp_path / "criu", number, _RUNS)
    expected, dump = _whole(tmp_path), _Dump(tmp_path)
    found = growing.spans(tmp_path, "criu", dump.written.is_set)
    dump.write("pages-1.img")
    dump.write("pagemap-1.img")
    dump.write("pages-2.img", 0)
    assert [next(found) for it in expected if it.path == "criu/pages-1.img"]
    dump.write("pages-2.img")
    dump.write("pagemap-2.img")
    dump.written.set()
    assert list(found) == [it for it in expected if it.path == "criu/pages-2.img"]


@pytest.mark.parametrize("size", [None, 0, 3, 8, 14, 20, -1])
def test_what_no_map_accounts_for_is_cut_evenly(tmp_path: Path, size: int | None) -> None:
    """Nothing is left out, whatever the map says."""
    page_files(tmp_path / "criu", 1, _RUNS)
    dump = _Dump(tmp_path)
    dump.write("pages-1.img")
    if size is not None:
        dump.write("pagemap-1.img", size)
    found = list(growing.spans(tmp_path, "criu", lambda: True))
    assert sum(sum(it.lengths) for it in found) == len(dump.content["pages-1.img"])


@pytest.mark.parametrize("raw", [b"no page map at all", bytes(100)])
def test_map_that_makes_no_sense_is_left_out(tmp_path: Path, raw: bytes) -> None:
    """So is one that accounts for more than there is."""
    page_files(tmp_path / "criu", 1, _RUNS)
    dump = _Dump(tmp_path)
    dump.write("pages-1.img", 2 * CHUNK_BYTES + PAGE)
    (tmp_path / "criu/pagemap-1.img").write_bytes(raw)
    (tmp_path / "criu/pagemap-2.img").write_bytes(dump.content["pagemap-1.img"])
    (found,) = growing.spans(tmp_path, "criu", lambda: True)
    assert found.lengths == (CHUNK_BYTES, CHUNK_BYTES, PAGE)


_Steps = Sequence[tuple[bool, float]]


@settings(max_examples=30, deadline=None, database=None)
@given(
    runs=st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 99)), min_size=1, max_size=20),
    steps=st.lists(st.tuples(st.booleans(), st.floats(0, 1)), max_size=10),
)
def test_dump_is_cut_the_same_however_it_grows(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, int]], steps: _Steps
) -> None:
    """As one that is whole: else the same memory would be stored twice."""
    folder = tmp_path_factory.mktemp("dump")
    page_files(folder / "criu", 1, [(page * PAGE, bytes(count * PAGE)) for page, count in runs])
    expected, dump = _whole(folder), _Dump(folder)
    sizes = {"pages-1.img": 0, "pagemap-1.img": 0}
    for name in sizes:
        dump.write(name, 0)
    todo = iter(steps)

    def look() -> bool:
        """Write a bit more before each look."""
        step = next(todo, None)
        for name, size in sizes.items():
            if step is None:
                dump.write(name)
            elif step[0] == (name == "pages-1.img"):
                sizes[name] = max(size, int(step[1] * len(dump.content[name])))
                dump.write(name, sizes[name])
        return step is None

    assert list(growing.spans(folder, "criu", look)) == expected
