"""Prunes, pushes, removals and restores of several hosts at once: no committed snapshot suffers.

Each seed is another order in which the requests of all of them reach the store.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import count, islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from spotrun.images import imagebox
from spotrun.images.backends.base import Backend
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.care import Policy
from spotrun.images.errors import SnapshotNotFound
from spotrun.images.holds import Purpose
from spotrun.images.prune import prune
from spotrun.images.runspec import ImageRef
from spotrun.images.seal import Plain
from spotrun.images.store import Store, file_sizes, new_hold
from spotrun.images.verify import verify
from tests.fakes.snapshots import IMAGE, manifest
from tests.fakes.stores import STORE, copied, objects, read, written
from tests.fakes.turns import Visited, interleave

Actor = Callable[[Backend], None]
_REGISTERED = ImageRef("docker.io/library/other:1", "2" * 64, "other@sha256:2", ())
_RANDOM = Random(1)
_FILES = {name: {"pages": _RANDOM.randbytes(70_000), "zeros": bytes(9000)} for name in "wxyz"}
_FILES["x and y"] = {**_FILES["x"], "more": _FILES["y"]["pages"]}


class _Hosts:
    """What hosts do with one store, and what they have committed."""

    def __init__(self, folder: Path, backend: MemoryBackend | None = None) -> None:
        self.backend = backend or MemoryBackend()
        self.committed: dict[tuple[str, str], str] = {}
        self._folders = {name: folder / name for name in _FILES}
        self._image = folder / "image"

    @property
    def store(self) -> Store:
        """The store, for whoever is alone."""
        return Store(self.backend, Plain(STORE))

    def push(self, job: str, number: int, which: str, image: ImageRef = IMAGE) -> Actor:
        """Store files as a snapshot, and the image if no registry has it."""

        def act(backend: Backend) -> None:
            for _ in self.pushing(Store(backend, Plain(STORE)), job, number, which, image):
                pass

        return act

    def pushing(
        self, store: Store, job: str, number: int, which: str, image: ImageRef = IMAGE
    ) -> Iterator[None]:
        """Do the same step by step."""
        snapshot, folder = _snapshot(number), self._folders[which]
        push = store.begin(snapshot, job, f"host of {job}")
        yield
        if not image.digest and not push.image(image):
            imagebox.put(store, push, image, self._image, threads=None, tell=None)
        yield
        files = file_sizes(folder)
        content = push.store(folder, files, threads=None, tell=None)
        yield
        self.committed[job, snapshot] = which
        made = manifest(job=job, snapshot=snapshot, image=image, files=files, content=content)
        push.publish(made)
        yield
        push.end()

    def push_again(self, job: str, number: int, which: str) -> Actor:
        """Give a push up when all is stored, and begin another one, which builds upon it."""

        def act(backend: Backend) -> None:
            store = Store(backend, Plain(STORE))
            for _ in islice(self.pushing(store, job, number, which), 3):
                pass
            store.abandon(_snapshot(number))
            self.push(job, number + 1, which)(backend)

        return act

    def fetch(self, job: str) -> Actor:
        """Restore the newest snapshot of a job."""

        def act(backend: Backend) -> None:
            store, hold = Store(backend, Plain(STORE)), new_hold(Purpose.PULL)
            store.read(hold, job, "another host")
            with suppress(IndexError, SnapshotNotFound):  # removed meanwhile, and the whole of it
                self._compare(store, *store.ids(job)[-1])
            store.end(hold)

        return act

    def compare(self) -> None:
        """Prove that every snapshot has what was pushed."""
        for names in self.store.ids():
            self._compare(self.store, *names)

    def _compare(self, store: Store, job: str, snapshot: str) -> None:
        with TemporaryDirectory() as folder:
            store.fetch(store.load(job, snapshot), Path(folder))
            assert read(Path(folder)) == _FILES[self.committed[job, snapshot]]


def _snapshot(number: int) -> str:
    return f"20261201T1000{number:02}Z-00000a"


def _prune(backend: Backend) -> None:
    prune(Store(backend, Plain(STORE)), Policy(last=1), host="pruning host")


def _remove(backend: Backend) -> None:
    """Remove all but the newest snapshot of a job, as a migration does."""
    store = Store(backend, Plain(STORE))
    store.remove("b", *(snapshot for _, snapshot in store.ids("b")[:-1]))


@cache
def _prepared(folder: Path, *, needed: bool) -> _Hosts:
    hosts = _Hosts(folder)
    for act in (hosts.push("a", 0, "w"), hosts.push("b", 0, "x"), hosts.push("b", 1, "y")):
        act(hosts.backend)
    hosts.push("c", 0, "z", _REGISTERED)(hosts.backend)
    if not needed:
        for job, snapshot in hosts.store.ids()[:-1]:
            hosts.store.remove(job, snapshot)
    return hosts


def _filled(folder: Path, *, needed: bool) -> _Hosts:
    """Return a store with some snapshots; or with their packs and their image, and without them."""
    prepared = _prepared(folder, needed=needed)
    hosts = _Hosts(folder, copied(objects(prepared.store)))
    hosts.committed.update(prepared.committed)
    return hosts


def _assert_whole(hosts: _Hosts) -> None:
    """All snapshots are, and stay so in a last prune, which leaves nothing that is not needed."""
    assert prune(hosts.store, Policy(), host="the last one").in_the_way == ()
    found = verify(hosts.store, read_data=True)
    assert (found.findings, found.unneeded) == ((), 0)
    hosts.compare()


def _run(folder: Path, seed: int) -> None:
    random = Random(seed)
    hosts = _filled(folder, needed=seed % 2 == 0)
    pushes = [hosts.push("a", 2, "x and y"), hosts.push_again("b", 3, "z")]
    others = [*pushes, hosts.fetch("b"), _prune, _remove]
    chosen = random.sample(others, random.randint(1, 3))
    interleave(hosts.backend, random, [_prune, *chosen])
    _assert_whole(hosts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the files of all snapshots."""
    made = tmp_path_factory.mktemp("files")
    for name, files in _FILES.items():
        written(made / name, files)
    return written(made / "image", {"layer": _RANDOM.randbytes(3000)}).parent


@pytest.mark.parametrize("steps", range(1, 6))
@pytest.mark.parametrize(("needed", "removed"), [(True, False), (True, True), (False, False)])
def test_push_that_stands_still_while_a_prune_goes_on_is_not_harmed(
    folder: Path, steps: int, *, needed: bool, removed: bool
) -> None:
    """Wherever the prune is when it begins, and also if what it builds upon is removed then."""
    for request in count():
        hosts = _filled(folder, needed=needed)
        push = hosts.pushing(hosts.store, "a", 2, "x and y")

        def begin(hosts: _Hosts = hosts, push: Iterator[None] = push) -> None:
            for _ in islice(push, steps):
                pass
            if removed:
                hosts.store.remove("b", *(snapshot for _, snapshot in hosts.store.ids("b")))

        visited = Visited(hosts.backend, request, begin)
        _prune(visited)
        for _ in push:
            pass
        _assert_whole(hosts)
        if not visited.visited:
            break
    assert request > 10


@pytest.mark.parametrize("needed", [True, False])
@pytest.mark.parametrize("verb", ["push", "push again", "fetch"])
def test_prune_within_a_push_or_a_restore_harms_neither(
    folder: Path, verb: str, *, needed: bool
) -> None:
    """Wherever these are."""
    for request in count():
        hosts = _filled(folder, needed=needed)
        visited = Visited(hosts.backend, request, partial(_prune, hosts.backend))
        verbs = {
            "push": hosts.push("a", 2, "x and y"),
            "push again": hosts.push_again("a", 2, "x and y"),
            "fetch": hosts.fetch("b"),
        }
        verbs[verb](visited)
        _assert_whole(hosts)
        if not visited.visited:
            break
    assert request > 2


def test_two_prunes_leave_an_image_that_came_to_be_needed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is about to delete the copy that the other would leave."""
    numbers = count()
    monkeypatch.setattr("secrets.token_hex", lambda size: f"{next(numbers):0{2 * size}x}")
    for request in count():
        hosts = _filled(folder, needed=False)

        def meanwhile(hosts: _Hosts = hosts) -> None:
            hosts.push("b", 3, "z")(hosts.backend)
            _prune(hosts.backend)

        visited = Visited(hosts.backend, request, meanwhile)
        _prune(visited)
        _assert_whole(hosts)
        if not visited.visited:
            break
    assert request > 10


@pytest.mark.parametrize("seed", range(30))
def test_no_order_of_requests_harms_a_committed_snapshot(folder: Path, seed: int) -> None:
    """Each can be fetched, and a prune in the end leaves nothing that is not needed."""
    _run(folder, seed)


@pytest.mark.slow
def test_no_order_of_many_harms_a_committed_snapshot(folder: Path) -> None:
    """As before, with more orders."""
    for seed in range(30, 1000):
        _run(folder, seed)
