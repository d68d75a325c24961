"""Whoever reads, writes or deletes is seen by the others."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from spotrun.images.backends.base import Data, Entry
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.errors import StoreUnavailable
from spotrun.images.holds import Hold, Holds, Purpose
from spotrun.images.pack import PackRef, key_of
from spotrun.images.pushing import Push
from spotrun.images.runspec import ImageRef
from spotrun.images.seal import Keyed, Plain
from spotrun.images.store import Store, StoredImage, file_sizes, new_hold
from tests.fakes.snapshots import manifest
from tests.fakes.stores import MASTER, STORE, keyed, plain, pushed, written

_SIZE = 100_000
_SMALL = 6_000
_OTHER = "20261201T110000Z-00000b"


def _ids(store: Store) -> list[str]:
    return [held.id for held in store.holds.held()]


@pytest.fixture
def store() -> Store:
    """Give an empty store."""
    return plain()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give files to store."""
    return written(tmp_path / "in", {"log": Random(1).randbytes(_SIZE)})


def _stored(push: Push, folder: Path) -> int:
    """Store files without a commit; return the bytes sent."""
    push.store(folder, file_sizes(folder), threads=None, tell=None)
    return push.moved


@pytest.mark.parametrize("make", [plain, keyed])
def test_hold_is_there_until_it_ends(make: Callable[[], Store]) -> None:
    """Its time is the store's."""
    holds = make().holds
    hold = Hold(Purpose.PUSH, "train", "host-a", (PackRef("0" * 64, 9, 8, 7),))
    holds.write("one", Hold(Purpose.PULL, "train", "host-a"))
    holds.write("two", hold)
    first = {held.id: held.modified for held in holds.held()}
    assert set(first) == {"one", "two"}
    assert holds.read("two") == hold
    holds.write("one", hold)
    assert next(iter(holds.held())).modified > first["one"]
    holds.end("one", "two", "three")
    assert list(holds.held()) == []
    assert holds.read("one") is None


def test_hold_that_makes_no_sense_is_still_listed() -> None:
    """Who deletes had better believe it."""
    backend = MemoryBackend()
    Holds(backend, Keyed(STORE, MASTER)).write("one", Hold(Purpose.PUSH, "train", "host-a"))
    holds = Holds(backend, Plain(STORE))
    assert [held.id for held in holds.held()] == ["one"]
    assert holds.read("one") is None


def test_new_holds_differ_and_say_what_for() -> None:
    """A list of keys alone tells people something."""
    assert new_hold(Purpose.PRUNE) != new_hold(Purpose.PRUNE)
    assert new_hold(Purpose.PRUNE).startswith("prune-")


def test_push_makes_its_hold_before_it_looks() -> None:
    """So that who deletes sees it, or is seen."""
    steps: list[str] = []

    class Noting(MemoryBackend):
        def put(self, key: str, data: Data) -> None:
            steps.append(f"put {key}")
            super().put(key, data)

        def list(self, prefix: str = "") -> Iterator[Entry]:
            steps.append(f"list {prefix}")
            return super().list(prefix)

    plain(Noting()).begin("hold", "train", "host")
    assert steps[0] == "put holds/hold"
    assert {"list holds/", "list snapshots/"} < set(steps[1:])


def test_hold_of_a_push_names_what_has_arrived(store: Store, folder: Path) -> None:
    """So that another one can go on from there."""
    push = store.begin("hold", "train", "host")
    assert store.holds.read("hold") == Hold(Purpose.PUSH, "train", "host")
    content = push.store(folder, file_sizes(folder), threads=None, tell=None)
    found = store.holds.read("hold")
    assert found is not None
    assert [ref.id for ref in found.packs] == [ref.id for ref in content.packs]


def test_hold_ends_after_the_commit(store: Store, folder: Path) -> None:
    """And not with it: what is left to do may need it."""
    push = store.begin("hold", "train", "host")
    content = push.store(folder, file_sizes(folder), threads=None, tell=None)
    push.publish(manifest(content=content, files=file_sizes(folder)))
    assert _ids(store) == ["hold"]
    push.end()
    assert _ids(store) == []


def test_same_hold_is_the_same_push_until_it_ends(store: Store) -> None:
    """The phases of a transaction need not hand it on."""
    push = store.begin("hold", "train", "host")
    assert store.begin("hold", "train", "host") is push
    store.end("hold")
    assert store.begin("hold", "train", "host") is not push


def test_push_that_is_given_up_leaves_what_it_has_stored(store: Store, folder: Path) -> None:
    """Held, for the next one of its job, which ends that hold with its own."""
    _stored(store.begin("first", "train", "host"), folder)
    store.abandon("first")
    assert _ids(store) == ["first"]
    _, sent = pushed(store, folder)
    assert sent == 0
    assert _ids(store) == []


def test_push_that_is_given_up_at_once_leaves_nothing(store: Store) -> None:
    """There is nothing to go on from."""
    store.begin("hold", "train", "host")
    store.abandon("hold")
    assert _ids(store) == []
    store.abandon("hold")


def test_push_of_a_process_that_died_is_continued(store: Store, folder: Path) -> None:
    """Under the same hold, too: what it names stays named."""
    sent = _stored(store.begin("hold", "train", "host"), folder)
    again = plain(store.backend).begin("hold", "train", "host")
    assert _stored(again, folder) == 0
    assert sent > _SIZE
    found = store.holds.read("hold")
    assert found is not None
    assert len(found.packs) == 1


@pytest.mark.parametrize(("job", "host"), [("train", "host-b"), ("other", "host")])
def test_push_of_others_is_left_alone(store: Store, folder: Path, job: str, host: str) -> None:
    """It may be at work, and nobody has committed to what it has stored."""
    _stored(store.begin("theirs", "train", "host"), folder)
    mine = store.begin("mine", job, host)
    assert _stored(mine, folder) > _SIZE
    mine.end()
    assert _ids(store) == ["theirs"]


def test_who_sees_a_prune_builds_upon_nothing_that_it_may_delete(
    store: Store, tmp_path: Path
) -> None:
    """Neither upon a push that did not end nor upon an image: no snapshot need have them."""
    files = [written(tmp_path / name, {name: Random(name).randbytes(_SIZE)}) for name in "abc"]
    pushed(store, files[0])
    _stored(store.begin("died", "train", "host"), files[1])
    push = store.begin("image", "", "host")
    image = ImageRef("image", "1" * 64, None, ())
    content = push.store(files[2], file_sizes(files[2]), threads=None, tell=None)
    store.put_image(StoredImage(image, file_sizes(files[2]), content))
    push.end()
    store.holds.write("prune", Hold(Purpose.PRUNE, "", "host"))
    seeing = store.begin("seeing", "train", "host")
    assert seeing.image(image) is None
    store.holds.end("prune")
    later = store.begin("later", "train", "host")
    assert later.image(image) is not None
    for folder, sent in zip(files, (0, _SIZE, _SIZE), strict=True):
        before = seeing.moved
        assert sent <= _stored(seeing, folder) - before < sent + _SMALL
        assert _stored(later, folder) < 3 * _SMALL


def test_push_whose_hold_has_ended_does_not_commit(store: Store, folder: Path) -> None:
    """After a day of silence its packs may be gone."""
    push = store.begin("hold", "train", "host")
    content = push.store(folder, file_sizes(folder), threads=None, tell=None)
    store.holds.end("hold")
    with pytest.raises(StoreUnavailable, match="its hold of this push has ended"):
        push.publish(manifest(content=content))
    assert store.ids() == []


def test_pack_that_is_gone_is_not_built_upon(store: Store, folder: Path) -> None:
    """Nor one that another is in the place of, nor one whose end is damaged."""
    first, _ = pushed(store, folder)
    key = key_of(first.content.packs[0].id)
    whole = store.backend.get(key)
    for damaged in (None, whole[:-1], whole[:-60] + bytes(60), b""):
        store.backend.delete([key])
        if damaged is not None:
            store.backend.put(key, damaged)
        push = store.begin("hold", "train", "host")
        assert _stored(push, folder) > _SIZE
        push.end()


def test_reader_holds_the_store_too(store: Store) -> None:
    """As long as it reads."""
    store.read("hold", "train", "host")
    assert store.holds.read("hold") == Hold(Purpose.PULL, "train", "host")
    store.end("hold")
    assert _ids(store) == []
