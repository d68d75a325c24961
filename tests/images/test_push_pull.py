"""Files go into a store and come back bit for bit; what it has already does not go again."""

import os
import resource
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.images import pull, push, recipe
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.errors import SnapshotDamaged, StoreFull, StoreUnavailable
from spotrun.images.known import Known
from spotrun.images.meter import Meter, Progress
from spotrun.images.pack import CHUNK_BYTES, FRAME_BYTES, PackWriter
from spotrun.images.pages import PAGE
from spotrun.images.recipe import ZEROS
from spotrun.images.seal import Broken, Plain
from spotrun.images.store import Store, file_sizes
from tests.fakes.stores import (
    STORE,
    FussyBackend,
    keyed,
    objects,
    page_files,
    plain,
    pushed,
    read,
    written,
)

_KB, _MB = 1 << 10, 1 << 20
_BOTH = pytest.mark.parametrize("make", [plain, keyed])
_SECOND: Final = "20261201T110000Z-00000b"
_SMALL = 6 * _KB
"""A manifest and two versions of a hold take less."""


def _noise(size: int, seed: int = 0) -> bytes:
    return Random(seed).randbytes(size)


_FILES = MappingProxyType(
    {
        "criu/core-1.img": b"core",
        "empty": b"",
        "log": _noise(2 * _MB + 17),
        "trees/0.tar": _noise(200 * _KB) + b"A" * _MB + bytes(3 * CHUNK_BYTES + 5),
        "trees/1.tar": _noise(200 * _KB),
        "zeros": bytes(10 * CHUNK_BYTES + 1),
    }
)


def _back(
    store: Store, folder: Path, *, job: str = "train", snapshot: str | None = None
) -> dict[str, bytes]:
    """Return the files of the snapshot as they come back."""
    store.fetch(store.find(job, snapshot), folder)
    return read(folder)


@_BOTH
def test_files_come_back(make: Callable[[], Store], tmp_path: Path) -> None:
    """Empty ones, repeats, zeros at the end; in as many packs as it takes."""
    store = make()
    pushed(store, written(tmp_path / "in", _FILES))
    assert _back(store, tmp_path / "out") == _FILES


_PIECES: Final = st.one_of(
    st.binary(max_size=200),
    st.integers(0, 3 * CHUNK_BYTES).map(bytes),
    st.builds(_noise, st.integers(0, 150 * _KB), st.integers(0, 3)),
    st.builds(lambda size, byte: bytes([byte]) * size, st.integers(0, _MB), st.integers(0, 255)),
)
_TREES: Final = st.dictionaries(
    st.sampled_from(["log", "a/b.tar", "a/pages-1.img", "a/b/ü", "z z"]),
    st.lists(_PIECES, max_size=4).map(b"".join),
)


@settings(max_examples=25, deadline=None, database=None)
@given(files=_TREES, more=_TREES, threads=st.integers(1, 3))
def test_any_files_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, bytes],
    more: dict[str, bytes],
    threads: int,
) -> None:
    """Also those of a snapshot that builds upon another, and of the other one then."""
    folder, store = tmp_path_factory.mktemp("any"), keyed()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(push, "_BYTES_A_WORKER", 100 * _KB)
        patched.setattr(push, "PACK_BYTES", 100 * _KB)
        for name, content in (("1", files), ("2", {**files, **more}), ("3", files)):
            snapshot = f"20261201T10000{name}Z-00000a"
            pushed(
                store, written(folder / f"in{name}", content), threads=threads, snapshot=snapshot
            )
    for name, content in (("3", files), ("2", {**files, **more}), ("1", files)):
        snapshot = f"20261201T10000{name}Z-00000a"
        assert _back(store, folder / f"out{name}", snapshot=snapshot) == content


@_BOTH
def test_second_push_of_the_same_files_sends_next_to_nothing(
    make: Callable[[], Store], tmp_path: Path
) -> None:
    """No pack at all, not even for the recipe."""
    store, folder = make(), written(tmp_path / "in", _FILES)
    first, _ = pushed(store, folder)
    packs = objects(store, "packs/")
    second, sent = pushed(store, folder, snapshot=_SECOND)
    assert sent == 0
    assert objects(store, "packs/") == packs
    assert second.content == first.content


def test_second_push_of_a_changed_file_sends_what_changed(tmp_path: Path) -> None:
    """In units of 64 KiB."""
    store, folder = plain(), written(tmp_path / "in", _FILES)
    pushed(store, folder)
    with (folder / "log").open("r+b") as file:
        file.seek(_MB)
        file.write(b"changed")
    _, sent = pushed(store, folder, snapshot=_SECOND)
    assert CHUNK_BYTES < sent < CHUNK_BYTES + _SMALL
    assert _back(store, tmp_path / "out", snapshot=_SECOND) == read(folder)


def test_files_that_another_job_has_are_not_sent(tmp_path: Path) -> None:
    """Jobs that share an image or a dataset share chunks."""
    store = plain()
    pushed(store, written(tmp_path / "a", _FILES), job="first")
    log = {"other/log": _FILES["log"]}
    _, sent = pushed(store, written(tmp_path / "b", log), job="second")
    assert sent < _SMALL
    assert _back(store, tmp_path / "out", job="second") == log


def test_zeros_and_repeats_cost_nothing(tmp_path: Path) -> None:
    """Neither in a pack, nor on the disk when they come back."""
    store, noise = plain(), _noise(CHUNK_BYTES)
    files = {"zeros": bytes(50 * _MB), "repeats": (noise + bytes(CHUNK_BYTES)) * 20}
    described, sent = pushed(store, written(tmp_path / "in", files))
    assert sent < CHUNK_BYTES + _SMALL
    assert described.content.packs[0].used < CHUNK_BYTES + _SMALL
    assert _back(store, tmp_path / "out") == files
    assert (tmp_path / "out" / "zeros").stat().st_blocks == 0
    assert (tmp_path / "out" / "repeats").stat().st_blocks * 512 < 25 * CHUNK_BYTES


def test_files_of_zeros_alone_are_stored_twice(tmp_path: Path) -> None:
    """There is only a recipe, which is the same."""
    store, folder = plain(), written(tmp_path / "in", {"zeros": bytes(_MB), "empty": b""})
    pushed(store, folder)
    assert pushed(store, folder, snapshot=_SECOND)[1] == 0
    assert _back(store, tmp_path / "out") == read(folder)


def test_no_files_at_all_come_back(tmp_path: Path) -> None:
    """A snapshot may have none."""
    store = plain()
    pushed(store, tmp_path)
    assert _back(store, tmp_path / "out") == {}


def test_pages_that_move_in_their_file_are_found_again(tmp_path: Path) -> None:
    """A process that got one page more at its begin costs that page, not all behind it."""
    store = plain()
    heap = _noise(4 * _MB)
    text, data = (0x400000, _noise(8 * PAGE, 1)), (0x7F0000000000, heap)
    page_files(tmp_path / "a" / "criu", 1, [text, data])
    page_files(tmp_path / "b" / "criu", 1, [text, (0x500000, _noise(PAGE, 2)), data])
    pushed(store, tmp_path / "a")
    _, sent = pushed(store, tmp_path / "b", snapshot=_SECOND)
    assert PAGE < sent < 2 * PAGE + _SMALL
    assert _back(store, tmp_path / "out", snapshot=_SECOND) == read(tmp_path / "b")


def test_member_that_moves_in_its_archive_is_found_again(tmp_path: Path) -> None:
    """A file before it that grows costs itself alone."""
    import io
    import tarfile

    def archive(before: bytes) -> bytes:
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as made:
            for name, content in (("before", before), ("large", _noise(2 * _MB))):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                made.addfile(member, io.BytesIO(content))
        return raw.getvalue()

    store = plain()
    pushed(store, written(tmp_path / "a", {"0.tar": archive(b"short")}))
    _, sent = pushed(
        store, written(tmp_path / "b", {"0.tar": archive(b"long" * 500)}), snapshot=_SECOND
    )
    assert sent < CHUNK_BYTES


def test_packs_say_how_much_of_them_is_used(tmp_path: Path) -> None:
    """By this snapshot, recipe included, each chunk once."""
    store, folder = plain(), written(tmp_path / "in", {"a": _noise(_MB), "b": _noise(_MB)})
    first, _ = pushed(store, folder)
    (pack,) = pull.open_packs(store.backend, store.seal, first.content.packs)
    assert first.content.packs[0].used == pack.raw
    (folder / "a").unlink()
    (folder / "b").write_bytes(_noise(_MB)[: 4 * CHUNK_BYTES])
    second, _ = pushed(store, folder, snapshot=_SECOND)
    assert [ref.used for ref in second.content.packs][:1] == [4 * CHUNK_BYTES]


def test_recipe_may_be_larger_than_a_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its packs are added to the list as they come."""
    monkeypatch.setattr(push, "PACK_BYTES", 1)
    monkeypatch.setattr(push, "FRAME_BYTES", CHUNK_BYTES)
    store, noise = plain(), _noise(CHUNK_BYTES)
    shuffled = [Random(5).choice([noise[:10], noise[10:30], b"z"]) * 1000 for _ in range(40)]
    files = {f"{number:0250}": content for number, content in enumerate(shuffled * 8)}
    described, _ = pushed(store, written(tmp_path / "in", files))
    assert len(described.content.recipe) > 3
    assert _back(store, tmp_path / "out") == files


def test_many_tiny_chunks_make_more_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame has room for so many names."""
    monkeypatch.setattr(push, "FRAME_CHUNKS", 100)
    known, meter, backend = Known(), Meter(0), MemoryBackend()
    with push._Senders(backend, known, meter, 1) as senders:  # noqa: SLF001 # as many files take long
        filler = push._Filler(Plain(STORE), known, senders)  # noqa: SLF001
        for number in range(102):
            filler.take(memoryview(number.to_bytes(3)))
        filler.close()
    (pack,) = pull.open_packs(backend, Plain(STORE), known.packs.values())
    assert [len(frame.chunks) for frame in pack.frames] == [100, 2]


def test_more_files_than_may_be_open_come_back(tmp_path: Path) -> None:
    """A job of many processes has a few image files of each."""
    files = {f"criu/{number}.img": str(number).encode() * 10 for number in range(300)}
    store = plain()
    with _most_open(100):
        pushed(store, written(tmp_path / "in", files))
        store.fetch(store.find("train", None), tmp_path / "out")
    assert read(tmp_path / "out") == files


@contextmanager
def _most_open(files: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _many_packs(folder: Path, monkeypatch: pytest.MonkeyPatch, packs: int = 20) -> Path:
    """Make files of as many packs, small ones, which two workers send."""
    monkeypatch.setattr(push, "PACK_BYTES", 1)
    monkeypatch.setattr(push, "FRAME_BYTES", CHUNK_BYTES)
    monkeypatch.setattr(push, "SPAN_BYTES", CHUNK_BYTES)
    monkeypatch.setattr("spotrun.images.cuts.SPAN_BYTES", CHUNK_BYTES)
    monkeypatch.setattr(push, "_BYTES_A_WORKER", CHUNK_BYTES)
    return written(folder, {"log": _noise(packs * CHUNK_BYTES)})


class _Trouble:
    """Fails with the nth pack, or each from that one on."""

    def __init__(self, nth: int, *, ever: bool = False) -> None:
        self.left = nth
        self.ever = ever
        self.lock = threading.Lock()

    def __call__(self, key: str) -> None:
        if not key.startswith("packs/"):
            return
        with self.lock:
            self.left -= 1
            if self.left == 0 or (self.ever and self.left < 0):
                raise StoreFull(store="memory", reason="no room")


def _threads() -> set[threading.Thread]:
    return set(threading.enumerate())


@pytest.mark.parametrize("nth", [1, 5, 20, 21])
@pytest.mark.parametrize("ever", [True, False])
def test_store_that_fails_is_told_and_the_push_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int, *, ever: bool
) -> None:
    """Nothing hangs, nothing is committed, and what has arrived is not sent again."""
    folder = _many_packs(tmp_path / "in", monkeypatch)
    trouble, before = _Trouble(nth, ever=ever), _threads()
    backend = FussyBackend(trouble)
    store = plain(backend)
    with pytest.raises(StoreFull, match="no room"):
        pushed(store, folder, threads=2)
    assert _threads() == before
    assert store.ids() == []
    backend.ask = lambda _: None
    _, sent = pushed(store, folder, threads=2)
    packs = [len(pack) for pack in objects(store, "packs/").values()]
    assert sum(packs) == sent
    assert len([size for size in packs if size > CHUNK_BYTES]) == 20, "the others are recipes"
    assert _back(store, tmp_path / "out") == read(folder)


@pytest.mark.parametrize("nth", [3, 15])
def test_push_of_another_process_goes_on_from_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """Whether it has the same hold or one of its own."""
    folder = _many_packs(tmp_path / "in", monkeypatch)
    backend = FussyBackend(_Trouble(nth, ever=True))
    with pytest.raises(StoreFull):
        pushed(plain(backend), folder, threads=1)
    backend.ask = _Trouble(3, ever=True)
    with pytest.raises(StoreFull):
        pushed(plain(backend), folder, threads=1)
    before = len(objects(plain(backend), "packs/"))
    backend.ask = lambda _: None
    store = plain(backend)
    pushed(store, folder, threads=1, snapshot=_SECOND)
    assert before == nth - 1 + 3 - 1
    assert len(objects(store, "packs/")) == 20 + 1
    assert list(store.holds.held()) == []
    assert _back(store, tmp_path / "out") == read(folder)


class _Stop(BaseException):
    """Stands for Ctrl-C, which comes to the main thread only."""


@pytest.mark.parametrize("kind", [_Stop, OSError])
def test_worker_that_fails_stops_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    """They end after the part they are at."""
    folder, before = _many_packs(tmp_path / "in", monkeypatch, packs=200), _threads()
    looked: list[int] = []

    def fails(_: memoryview) -> bool:
        looked.append(1)
        if len(looked) == 5:
            raise kind("here")
        return False

    monkeypatch.setattr(push, "_is_zero", fails)
    with pytest.raises(kind, match="here"):
        pushed(plain(), folder, threads=2)
    assert _threads() == before
    assert len(looked) < 30


def test_ctrl_c_stops_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the main thread waits for them."""
    folder, before = _many_packs(tmp_path / "in", monkeypatch, packs=200), _threads()
    backend, interrupted = FussyBackend(lambda _: None), threading.Event()

    def interrupt(*_: object, **__: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    def ask(key: str) -> None:
        if key.startswith("packs/"):
            assert interrupted.wait(10)

    backend.ask = ask
    monkeypatch.setattr(push, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        pushed(plain(backend), folder, threads=2)
    assert _threads() == before
    assert len(objects(plain(backend), "packs/")) < 20


def test_slow_store_holds_the_workers_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more packs wait than a few, whatever there is to send; the level rises."""
    folder = _many_packs(tmp_path / "in", monkeypatch, packs=40)
    known, goes_on, stuck = Known(), threading.Event(), threading.Event()

    def slow(_: str) -> None:
        assert goes_on.wait(10)

    backend = FussyBackend(slow)
    most = push._SENDERS + push._WAITING + 2  # noqa: SLF001 # each worker has one in hand
    levels: list[int] = []
    add = PackWriter.add

    def noted(writer: PackWriter, names: Any, raw: Any, level: int) -> int:  # noqa: ANN401 # handed on
        levels.append(level)
        if len(levels) == most:
            stuck.set()
        return add(writer, names, raw, level)

    monkeypatch.setattr(PackWriter, "add", noted)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with ThreadPoolExecutor(1) as pool:
        sizes = file_sizes(folder)
        future = pool.submit(
            push.push, backend, Plain(STORE), folder, sizes, known=known, meter=Meter(0)
        )
        assert stuck.wait(10)
        assert not goes_on.wait(0.05)
        assert len(levels) == most
        goes_on.set()
        future.result(10)
    assert set(levels[: most - 2]) == {push._FAST}  # noqa: SLF001
    assert levels[-1] == push._SMALL  # noqa: SLF001


def test_push_beside_a_running_job_takes_its_time(tmp_path: Path) -> None:
    """What it sends is smaller than what is sent in a hurry."""
    text = " ".join(str(number) for number in range(300_000)).encode()
    folder = written(tmp_path / "in", {"a": text})
    _, hurried = pushed(plain(), folder)
    _, patient = pushed(plain(), folder, threads=1)
    assert patient < hurried


@pytest.mark.parametrize("threads", [1, 2])
def test_chunk_that_two_workers_meet_is_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """At the same time, too."""
    monkeypatch.setattr(push, "_BYTES_A_WORKER", CHUNK_BYTES)
    same = _noise(FRAME_BYTES)
    folder = written(tmp_path / "in", {str(number): same for number in range(16)})
    _, sent = pushed(plain(), folder, threads=threads)
    assert sent < FRAME_BYTES + _SMALL


@pytest.mark.parametrize("size", [_MB - 1, _MB + 1, 0])
def test_file_that_changes_meanwhile_is_told(tmp_path: Path, size: int) -> None:
    """Its manifest would have another size."""
    folder, store = written(tmp_path / "in", {"log": _noise(_MB)}), plain()
    files = file_sizes(folder)
    os.truncate(folder / "log", size)
    begun = store.begin("hold", "train", "host")
    with pytest.raises(OSError, match=r"^log has changed its size from 1048576 to \d+ bytes$"):
        begun.store(folder, files, threads=None, tell=None)


def test_file_that_is_gone_is_told(tmp_path: Path) -> None:
    """It is an error of this host, not of the store."""
    begun = plain().begin("hold", "train", "host")
    with pytest.raises(FileNotFoundError):
        begun.store(tmp_path, {"log": 1}, threads=None, tell=None)


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes done and bytes moved, in both directions."""
    monkeypatch.setattr("spotrun.images.meter._INTERVAL", 0.0)
    store, told = plain(), list[Progress]()
    folder = written(tmp_path / "in", {"log": _noise(_MB), "zeros": bytes(_MB)})
    files, begun = file_sizes(folder), store.begin("hold", "train", "host")
    content = begun.store(folder, files, threads=None, tell=told.append)
    assert (told[-1].done, told[-1].total) == (2 * _MB, 2 * _MB)
    assert begun.moved == told[-1].moved == sum(ref.size for ref in content.packs)
    assert [it.done for it in told] == sorted(it.done for it in told)


@pytest.mark.parametrize("place", ["/abs", "../up", "a/../../up", ".."])
def test_file_that_would_lie_elsewhere_is_not_written(tmp_path: Path, place: str) -> None:
    """Who can write to a store must not write to the host."""
    with pytest.raises(Broken, match="lies elsewhere"):
        pull._made(tmp_path / "out", place, 1)  # noqa: SLF001 # no honest recipe has it
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("extents", "said"),
    [
        ((0, 1, 1), "different sizes"),
        ((ZEROS, 0, 1), "different sizes"),
        ((), "different sizes"),
        ((0, 0, 99), "as many chunks as a recipe says"),
        ((5, 0, 1), "a pack that its manifest does not"),
        ((-2, 0, 1), "a pack that its manifest does not"),
        ((ZEROS, 0, -1), "an extent has three numbers"),
    ],
)
def test_recipe_that_does_not_fit_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extents: tuple[int, ...], said: str
) -> None:
    """It is found before a byte is written."""
    encoded = recipe.encode({"log": extents})
    monkeypatch.setattr(recipe, "encode", lambda _: encoded)
    store = plain()
    described, _ = pushed(store, written(tmp_path / "in", {"log": b"it"}))
    with pytest.raises(SnapshotDamaged, match=said):
        store.fetch(described, tmp_path / "out")


def test_unavailable_store_is_told_by_a_pull(tmp_path: Path) -> None:
    """It is no damage."""

    class Gone(MemoryBackend):
        def read(self, key: str, offset: int, length: int) -> bytes:
            raise StoreUnavailable(store=self, reason=f"no answer for {key} {offset} {length}")

    backend = Gone()
    store = plain(backend)
    described, _ = pushed(store, written(tmp_path / "in", _FILES))
    before = _threads()
    with pytest.raises(StoreUnavailable, match="no answer"):
        store.fetch(described, tmp_path / "out")
    assert _threads() == before
