"""What every backend does, as functions that need nothing but an empty one."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Barrier
from typing import Any, TypeVar

from spotrun.images.backends.base import (
    Backend,
    ObjectChanged,
    ObjectExists,
    ObjectMissing,
    ObjectTooShort,
)

T = TypeVar("T")
_THREADS = 8
_MORE_THAN_A_PAGE = 1001
_LARGE = 20 * 1024 * 1024


def written_object_is_read_back(backend: Backend) -> None:
    """All of it, and again after it was overwritten."""
    backend.put("a/b", b"first")
    assert backend.get("a/b") == b"first"
    backend.put("a/b", b"2nd")
    assert backend.get("a/b") == b"2nd"


def content_may_come_in_pieces(backend: Backend) -> None:
    """Of every kind of buffer, empty ones among them."""
    backend.put("list", [b"one", bytearray(b"two"), b"", memoryview(b"-three")[1:]])
    backend.put("view", memoryview(b"whole")[1:])
    backend.put("array", bytearray(b"array"))
    assert backend.get("list") == b"onetwothree"
    assert (backend.get("view"), backend.get("array")) == (b"hole", b"array")


def empty_object_is_an_object(backend: Backend) -> None:
    """Whether it comes in no piece or in an empty one."""
    backend.put("none", [])
    backend.put("empty", b"")
    assert (backend.get("none"), backend.get("empty")) == (b"", b"")
    assert [(it.key, it.size) for it in backend.list()] == [("empty", 0), ("none", 0)]


def large_object_is_one_object(backend: Backend) -> None:
    """Of the size of a pack, from pieces."""
    piece = bytes(range(256)) * (_LARGE // 256 // 20)
    backend.put("pack", [piece] * 20)
    assert backend.get("pack") == piece * 20
    assert backend.read("pack", _LARGE - 300, 300) == piece[-300:]
    assert [it.size for it in backend.list()] == [_LARGE]


def missing_object_is_told_apart(backend: Backend) -> None:
    """From an empty one, and from a folder."""
    backend.put("folder/it", b"")
    for key in ("absent", "folder", "folder/absent", "absent/absent"):
        _refused(ObjectMissing, partial(backend.get, key))
        _refused(ObjectMissing, partial(backend.get_tagged, key))
        _refused(ObjectMissing, partial(backend.read, key, 0, 1))


def range_is_read_exactly(backend: Backend) -> None:
    """At both ends and between; what goes beyond the end is refused."""
    backend.put("it", b"0123456789")
    assert backend.read("it", 0, 10) == b"0123456789"
    assert backend.read("it", 0, 1) == b"0"
    assert backend.read("it", 3, 4) == b"3456"
    assert backend.read("it", 9, 1) == b"9"
    for offset, length in ((9, 2), (10, 1), (1000, 5), (0, 11)):
        _refused(ObjectTooShort, partial(backend.read, "it", offset, length))


def created_object_is_not_overwritten(backend: Backend) -> None:
    """What is there stays; the tag is that of `get_tagged`."""
    tag = backend.create("lease", b"mine")
    _refused(ObjectExists, lambda: backend.create("lease", b"yours"))
    assert backend.get_tagged("lease") == (b"mine", tag)


def object_created_again_is_ours(backend: Backend) -> None:
    """An acknowledgement that got lost is no failure."""
    tag = backend.create("lease", b"mine")
    assert backend.create("lease", [b"mi", b"ne"]) == tag


def deleted_object_can_be_created_again(backend: Backend) -> None:
    """Nothing is left of it."""
    backend.create("lease", b"first")
    backend.delete(["lease"])
    backend.create("lease", b"second")
    assert backend.get("lease") == b"second"


def unchanged_object_is_replaced(backend: Backend) -> None:
    """Each replacement gives the tag for the next one."""
    tag = backend.create("lease", b"1")
    tag = backend.replace("lease", [b"2", b"2"], tag)
    tag = backend.replace("lease", b"3", tag)
    assert backend.get_tagged("lease") == (b"3", tag)


def changed_object_is_not_replaced(backend: Backend) -> None:
    """Nor one that is gone."""
    old = backend.create("lease", b"1")
    backend.replace("lease", b"2", old)
    _refused(ObjectChanged, lambda: backend.replace("lease", b"3", old))
    assert backend.get("lease") == b"2"
    backend.delete(["lease"])
    _refused(ObjectChanged, lambda: backend.replace("lease", b"3", old))
    _refused(ObjectMissing, lambda: backend.get("lease"))


def object_replaced_again_is_ours(backend: Backend) -> None:
    """An acknowledgement that got lost is no failure."""
    old = backend.create("lease", b"1")
    new = backend.replace("lease", b"2", old)
    assert backend.replace("lease", b"2", old) == new


def only_one_creates_it_in_a_race(backend: Backend) -> None:
    """All others are refused, and the object is the winner's."""
    for turn in range(2):
        create = partial(backend.create, f"race/{turn}")
        ((content, tag),) = _race(create, f"{turn} by ").items()
        assert backend.get_tagged(f"race/{turn}") == (content, tag)


def only_one_replaces_it_in_a_race(backend: Backend) -> None:
    """All others are refused, and the object is the winner's."""
    tag = backend.create("race", b"begin")
    for turn in range(2):
        replace = partial(backend.replace, "race", tag=tag)
        ((content, tag),) = _race(replace, f"{turn} by ").items()
        assert backend.get_tagged("race") == (content, tag)


def no_increment_is_lost_in_a_race(backend: Backend) -> None:
    """Whoever is refused reads it again."""
    backend.create("count", b"0 by nobody")

    def increment(me: int) -> None:
        for _ in range(5):
            while True:
                found, tag = backend.get_tagged("count")
                with suppress(ObjectChanged):
                    backend.replace("count", f"{int(found.split()[0]) + 1} by {me}".encode(), tag)
                    break

    _together(increment)
    assert backend.get("count").split()[0] == str(5 * _THREADS).encode()


def reader_meets_no_half_written_object(backend: Backend) -> None:
    """While it is overwritten all the time."""
    contents = [bytes([it]) * 100_000 for it in range(_THREADS)]
    backend.put("it", contents[0])

    def use(me: int) -> None:
        for _ in range(5):
            backend.put("it", contents[me])
            assert backend.get("it") in contents

    _together(use)


def list_is_sorted_and_of_the_prefix_only(backend: Backend) -> None:
    """By the whole key, in which `-` and `.` come before `/`."""
    for key in ("a/z", "a-b", "a.c", "aa/x", "a/b/c", "a0"):
        backend.put(key, key.encode())
    assert [it.key for it in backend.list()] == ["a-b", "a.c", "a/b/c", "a/z", "a0", "aa/x"]
    assert [(it.key, it.size) for it in backend.list("a/")] == [("a/b/c", 5), ("a/z", 3)]
    assert [it.key for it in backend.list("a/b/")] == ["a/b/c"]
    assert list(backend.list("absent/")) == []


def list_of_nothing_is_empty(backend: Backend) -> None:
    """Also when nothing was ever written."""
    assert list(backend.list()) == []


def listed_objects_have_their_time(backend: Backend) -> None:
    """It is in UTC, and about now."""
    backend.put("it", b"")
    (entry,) = backend.list()
    assert abs(datetime.now(UTC) - entry.modified) < timedelta(minutes=1)


def more_than_a_page_is_listed_and_deleted(backend: Backend) -> None:
    """What stays is what was not named."""
    keys = [f"many/{number:04}" for number in range(_MORE_THAN_A_PAGE)]
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda key: backend.put(key, b""), [*keys, "other"]))
    assert [it.key for it in backend.list("many/")] == keys
    backend.delete(iter(keys))
    assert [it.key for it in backend.list()] == ["other"]


def absent_object_is_as_good_as_deleted(backend: Backend) -> None:
    """Beside others, or alone, or nothing at all."""
    backend.put("it", b"")
    backend.delete([])
    backend.delete(["absent", "it", "absent/absent"])
    backend.delete(["it"])
    assert list(backend.list()) == []


def key_may_have_all_its_characters(backend: Backend) -> None:
    """Also a dot in front."""
    key = ".hidden/A-Z_a.z/0..9/...x"
    backend.put(key, b"it")
    assert backend.get(key) == b"it"
    assert [it.key for it in backend.list(".hidden/")] == [key]


def name_is_of_one_line(backend: Backend) -> None:
    """It stands in messages."""
    assert str(backend).strip()
    assert "\n" not in str(backend)


def _together(work: Callable[[int], T]) -> Sequence[T]:
    """Let all threads begin at the same instant; return what each made of it."""
    start = Barrier(_THREADS)

    def begin(me: int) -> T:
        start.wait()
        return work(me)

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(begin, range(_THREADS)))


def _race(write: Callable[[bytes], str], said: str) -> dict[bytes, str]:
    """Return the contents, and their tags, of those who were not refused."""

    def attempt(me: int) -> tuple[bytes, str | None]:
        content = f"{said}{me}".encode()
        try:
            return content, write(content)
        except (ObjectExists, ObjectChanged):
            return content, None

    return {content: tag for content, tag in _together(attempt) if tag is not None}


def _refused(kind: type[Exception], call: Callable[[], Any]) -> None:
    """Prove that a call raises that error."""
    with suppress(kind):
        call()
        raise AssertionError(f"it was not refused with {kind.__name__}")
