"""A prune removes what the policy does not keep and nobody needs, and nothing else."""

import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from spotrun.images import imagebox, meter
from spotrun.images import prune as prune_module
from spotrun.images.backends import open_backend
from spotrun.images.backends.base import Data
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.care import Policy
from spotrun.images.errors import SnapshotDamaged, SnapshotNotFound, StoreUnavailable
from spotrun.images.holds import LIFE, Hold, Purpose
from spotrun.images.manifest import Manifest
from spotrun.images.meter import Progress
from spotrun.images.prune import InTheWay, Pruned, prune
from spotrun.images.retention import Reason
from spotrun.images.runspec import ImageRef
from spotrun.images.seal import Plain
from spotrun.images.store import Store, Tell, file_sizes
from spotrun.images.verify import verify
from tests.fakes.seaweed import Bucket
from tests.fakes.snapshots import IMAGE, NOW, manifest
from tests.fakes.stores import STORE, objects, plain, pushed, read, written

_REGISTERED = ImageRef("docker.io/library/other:1", "2" * 64, "other@sha256:2", ())
_RANDOM = Random(2)
_A, _B, _C = (_RANDOM.randbytes(100_000) for _ in range(3))


class _AgedBackend(MemoryBackend):
    """A backend whose clock is set by the test, and which can fail in a delete."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.deletes: int | None = None
        """How many more succeed; None: all."""

    def _keep(self, key: str, data: Data) -> str:
        tag = super()._keep(key, data)
        self._objects[key] = self._objects[key][0], self.now
        return tag

    def delete(self, keys: Iterable[str]) -> None:
        """Fail as a store does that is cut off in the middle."""
        for key in keys:
            if self.deletes is not None:
                if not self.deletes:
                    raise StoreUnavailable(store=self, reason="cut off")
                self.deletes -= 1
            super().delete([key])


@pytest.fixture
def backend() -> _AgedBackend:
    """Give the backend of the store."""
    return _AgedBackend()


@pytest.fixture
def store(backend: _AgedBackend) -> Store:
    """Give an empty store."""
    return plain(backend)


def _push(
    store: Store,
    folder: Path,
    number: int,
    *contents: bytes,
    job: str = "train",
    image: ImageRef = _REGISTERED,
) -> Manifest:
    """Commit a snapshot, which shares content with others but neither names of files nor recipe."""
    files = {f"{number}.{at}": content for at, content in enumerate(contents)}
    place = written(folder / f"{job}-{number}", files)
    snapshot = f"20261201T10{number:04}Z-00000a"
    return pushed(store, place, job=job, snapshot=snapshot, image=image)[0]


def _put_image(store: Store, folder: Path, image: ImageRef = IMAGE) -> None:
    """Store an image as a push does."""
    push = store.begin("image", "train", "host")
    place = written(folder / "image", {"layer": _RANDOM.randbytes(5000)})
    imagebox.put(store, push, image, place, threads=None, tell=None)
    push.end()


def _left(store: Store) -> list[str]:
    return [snapshot for _, snapshot in store.ids()]


def _assert_tidy(store: Store) -> None:
    """Nothing is damaged, nothing is there that is not needed, and nobody holds anything."""
    found = verify(store, read_data=True)
    assert (found.findings, found.unneeded) == ((), 0)
    assert objects(store, "holds/") == {}


def _fetched(store: Store, it: Manifest, folder: Path) -> dict[str, bytes]:
    store.fetch(it, folder / "fetched")
    return read(folder / "fetched")


def test_what_the_policy_does_not_keep_goes_with_its_packs(store: Store, tmp_path: Path) -> None:
    """And what is kept needs stays."""
    old = _push(store, tmp_path, 1, _A, _B)
    kept = _push(store, tmp_path, 2, _B, _C)
    before = sum(map(len, objects(store, "packs/").values()))
    done = prune(store, Policy(last=1), host="host")
    assert [(it.snapshot, it.reasons) for it in done.snapshots] == [
        (old.snapshot, ()),
        (kept.snapshot, (Reason.NEWEST, Reason.LAST)),
    ]
    assert store.manifests() == [kept]
    assert done.bytes_left == sum(map(len, objects(store, "packs/").values()))
    assert done.bytes == before - done.bytes_left
    assert (done.packs_left, done.in_the_way) == (len(objects(store, "packs/")), ())
    assert _fetched(store, kept, tmp_path) == {"2.0": _B, "2.1": _C}
    _assert_tidy(store)


def test_progress_is_told_step_by_step(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bytes: of manifests that are read, of snapshots and of packs that are deleted."""
    monkeypatch.setattr(meter, "_INTERVAL", 0.0)
    monkeypatch.setattr(prune_module, "_BATCH", 2)
    for number in range(5):
        _push(store, tmp_path, number, _RANDOM.randbytes(80_000))
    snapshots = objects(store, "snapshots/")
    told: dict[str, list[Progress]] = {}

    @contextmanager
    def step(name: str) -> Iterator[Tell]:
        told[name] = []
        yield told[name].append

    done = prune(store, Policy(last=2), host="host", step=step)
    gone = sum(len(raw) for key, raw in snapshots.items() if key not in objects(store))
    totals = {
        "look": sum(map(len, snapshots.values())),
        "delete snapshots": gone,
        "delete packs": done.bytes,
    }
    assert {name: (them[-1].done, them[-1].total) for name, them in told.items()} == {
        name: (total, total) for name, total in totals.items()
    }
    assert [len(them) for them in told.values()] == [5, 2, 2]
    assert all(it.moved == it.done for them in told.values() for it in them)


def test_dry_run_has_one_step(store: Store, tmp_path: Path) -> None:
    """It deletes nothing."""
    _push(store, tmp_path, 1, _A)
    steps: list[str] = []

    def step(name: str) -> AbstractContextManager[None]:
        steps.append(name)
        return nullcontext()

    prune(store, Policy(last=1), host="host", dry_run=True, step=step)
    assert steps == ["look"]


def test_pack_of_which_a_kept_snapshot_needs_anything_stays(store: Store, tmp_path: Path) -> None:
    """A pack goes as a whole or not at all."""
    _push(store, tmp_path, 1, _A, _B)
    kept = _push(store, tmp_path, 2, _B)
    assert prune(store, Policy(last=1), host="host").packs == 0
    assert _fetched(store, kept, tmp_path) == {"2.0": _B}


def test_dry_run_shows_what_would_go_and_writes_nothing(
    store: Store, backend: _AgedBackend, tmp_path: Path
) -> None:
    """The real one then removes just that."""
    backend.now = datetime.now(UTC)
    for number in range(3):
        _push(store, tmp_path, number, _RANDOM.randbytes(80_000), image=IMAGE)
    _push(store, tmp_path, 1, _A, job="other", image=replace(IMAGE, id="3" * 64))
    _put_image(store, tmp_path, replace(IMAGE, id="4" * 64))
    before = dict(backend._objects)  # noqa: SLF001 # also when they were written
    shown = prune(store, Policy(last=2), host="host", dry_run=True)
    assert backend._objects == before  # noqa: SLF001
    assert (shown.packs, shown.images) == (2, 1)
    done = prune(store, Policy(last=2), host="host")
    assert shown == replace(done, dry_run=True)
    assert verify(store, read_data=True).unneeded == 0


def test_ages_are_by_the_clock_of_the_store(
    store: Store, backend: _AgedBackend, tmp_path: Path
) -> None:
    """Not by what the manifest says, nor by what this host believes."""
    for number, days in enumerate((9, 6, 3)):
        backend.now = NOW - timedelta(days=days)
        _push(store, tmp_path, number, bytes([number]) * 10)
    backend.now = NOW
    done = prune(store, Policy(within=timedelta(days=7)), host="host")
    assert [it.reasons for it in done.snapshots] == [
        (),
        (Reason.WITHIN,),
        (Reason.NEWEST, Reason.WITHIN),
    ]


def test_without_rules_only_what_nothing_needs_goes(store: Store, tmp_path: Path) -> None:
    """Such as the packs of a push that was given up."""
    kept = _push(store, tmp_path, 1, _A)
    push = store.begin("lost", "train", "host")
    push.store(written(tmp_path / "lost", {"0": _B}), {"0": len(_B)}, threads=None, tell=None)
    push.end()
    assert prune(store, Policy(), host="host").packs == 1
    assert store.manifests() == [kept]
    _assert_tidy(store)


def test_policy_for_one_job_leaves_the_others_alone(store: Store, tmp_path: Path) -> None:
    """Their snapshots and packs stay, whatever the policy says."""
    for job in ("train", "other"):
        for number in range(3):
            _push(store, tmp_path, number, _RANDOM.randbytes(100), job=job)
    done = prune(store, Policy(last=1), host="host", job="train")
    assert (len(store.ids("train")), len(store.ids("other")), done.packs) == (1, 3, 2)
    _assert_tidy(store)


def test_job_without_snapshots_is_refused(store: Store, tmp_path: Path) -> None:
    """A name that was mistyped must not look like success."""
    _push(store, tmp_path, 1, _A)
    with pytest.raises(SnapshotNotFound, match="of job 'trian'"):
        prune(store, Policy(last=1), host="host", job="trian")
    _assert_tidy(store)


def test_unsent_snapshots_stay(store: Store, tmp_path: Path) -> None:
    """They are to be sent to another store first."""
    unsent = _push(store, tmp_path, 1, _A)
    _push(store, tmp_path, 2, _B)
    prune(store, Policy(last=1), host="host", staying={unsent.snapshot: Reason.UNSENT})
    assert unsent.snapshot in _left(store)


def test_image_goes_with_the_last_snapshot_that_needs_it(store: Store, tmp_path: Path) -> None:
    """And its packs with it."""
    _put_image(store, tmp_path)
    _push(store, tmp_path, 1, _A, image=IMAGE)
    _push(store, tmp_path, 2, _B, image=IMAGE)
    assert prune(store, Policy(last=1), host="host").images == 0
    assert store.image(IMAGE)
    _push(store, tmp_path, 3, _C)
    done = prune(store, Policy(last=1), host="host")
    assert (done.images, done.packs) == (1, 2)
    assert store.images() == []
    _assert_tidy(store)


def test_one_of_two_copies_of_an_image_goes(store: Store, tmp_path: Path) -> None:
    """Two hosts may have stored it at the same time; one that cannot be read goes first."""
    _push(store, tmp_path, 1, _A, image=IMAGE)
    for _ in range(3):
        _put_image(store, tmp_path)
    broken = min(objects(store, "images/"))
    store.backend.put(broken, b"nothing that makes sense")
    assert prune(store, Policy(), host="host").images == 2
    assert broken not in objects(store, "images/")
    assert store.image(IMAGE)
    _assert_tidy(store)


@pytest.mark.parametrize("purpose", [Purpose.PUSH, Purpose.PULL])
def test_packs_stay_while_others_push_or_restore(
    store: Store, tmp_path: Path, purpose: Purpose
) -> None:
    """Snapshots go, and whoever is in the way is named; the next prune does the rest."""
    _push(store, tmp_path, 1, _A)
    kept = _push(store, tmp_path, 2, _B)
    packs = objects(store, "packs/")
    store.holds.write("theirs", Hold(purpose, "train", "host-b"))
    done = prune(store, Policy(last=1), host="host-a")
    assert done.in_the_way == (InTheWay(purpose, "train", "host-b", NOW),)
    assert (done.packs, objects(store, "packs/")) == (0, packs)
    assert _left(store) == [kept.snapshot]
    assert list(objects(store, "holds/")) == ["holds/theirs"]
    store.holds.end("theirs")
    assert prune(store, Policy(last=1), host="host-a").packs == 1
    _assert_tidy(store)


def test_push_that_was_given_up_is_in_nobodys_way(store: Store, tmp_path: Path) -> None:
    """What it has stored goes, unless the next push of its job is faster."""
    kept = _push(store, tmp_path, 1, _A)
    push = store.begin("given up", "train", "host-b")
    folder = written(tmp_path / "given-up", {"0": _B})
    push.store(folder, file_sizes(folder), threads=None, tell=None)
    store.abandon("given up")
    assert prune(store, Policy(), host="host-a", dry_run=True).in_the_way == ()
    assert prune(store, Policy(), host="host-a").packs == 1
    assert store.manifests() == [kept]
    _assert_tidy(store)


def test_dry_run_names_who_is_in_the_way(store: Store, tmp_path: Path) -> None:
    """And shows what would go without them."""
    _push(store, tmp_path, 1, _A)
    _push(store, tmp_path, 2, _B)
    store.backend.now = datetime.now(UTC)  # type: ignore[attr-defined]
    store.holds.write("theirs", Hold(Purpose.PUSH, "train", "host-b"))
    shown = prune(store, Policy(last=1), host="host-a", dry_run=True)
    assert ([it.host for it in shown.in_the_way], shown.packs) == (["host-b"], 1)


def test_other_prunes_are_not_in_the_way(store: Store, tmp_path: Path) -> None:
    """Also one that died."""
    _push(store, tmp_path, 1, _A)
    _push(store, tmp_path, 2, _B)
    store.holds.write("theirs", Hold(Purpose.PRUNE, "", "host-b"))
    assert prune(store, Policy(last=1), host="host-a").packs == 1


def test_push_that_was_given_up_is_not_in_the_way(store: Store, tmp_path: Path) -> None:
    """What it had stored goes with its hold."""
    _push(store, tmp_path, 1, _A)
    push = store.begin("left", "train", "host-b")
    folder = written(tmp_path / "left", {"0": _B})
    push.store(folder, file_sizes(folder), threads=None, tell=None)
    store.abandon("left")
    done = prune(store, Policy(), host="host-a")
    assert (done.in_the_way, done.packs) == ((), 1)
    _assert_tidy(store)


def test_hold_that_cannot_be_read_counts(store: Store, tmp_path: Path) -> None:
    """It may be anybody's."""
    _push(store, tmp_path, 1, _A)
    _push(store, tmp_path, 2, _B)
    store.backend.put("holds/theirs", b"nothing that makes sense")
    done = prune(store, Policy(last=1), host="host-a")
    assert (done.in_the_way, done.packs) == ((InTheWay(None, "", "", NOW),), 0)


def test_hold_lapses_after_a_day_without_a_word(
    store: Store, backend: _AgedBackend, tmp_path: Path
) -> None:
    """By the clock of the store; then it is deleted, and its push cannot commit any more."""
    _push(store, tmp_path, 1, _A)
    backend.now = NOW - LIFE
    push = store.begin("slow", "train", "host-b")
    folder = written(tmp_path / "slow", {"0": _B})
    content = push.store(folder, file_sizes(folder), threads=None, tell=None)
    backend.now = NOW - timedelta(seconds=1)
    assert prune(store, Policy(), host="host-a").in_the_way
    backend.now = NOW
    done = prune(store, Policy(), host="host-a")
    assert (done.in_the_way, done.packs) == ((), 1)
    with pytest.raises(StoreUnavailable, match="its hold of this push has ended"):
        push.publish(manifest(content=content))
    _assert_tidy(store)


def test_damaged_manifest_stops_everything(store: Store, tmp_path: Path) -> None:
    """What it needs cannot be told; it is named, and nothing was deleted."""
    damaged = _push(store, tmp_path, 1, _A)
    _push(store, tmp_path, 2, _B, job="other")
    _push(store, tmp_path, 3, _C, job="other")
    store.backend.put(f"snapshots/train/{damaged.snapshot}", b"nothing that makes sense")
    before = objects(store)
    for dry_run in (True, False):
        with pytest.raises(SnapshotDamaged, match=damaged.snapshot) as refused:
            prune(store, Policy(last=1), host="host", dry_run=dry_run)
        assert refused.value.__notes__ == ["`spotrun repair` takes it out of the way"]
        assert objects(store) == before


def test_damaged_image_stops_everything_while_it_is_needed(store: Store, tmp_path: Path) -> None:
    """Then as above; else it goes."""
    _put_image(store, tmp_path)
    (key,) = objects(store, "images/")
    store.backend.put(key, b"nothing that makes sense")
    _push(store, tmp_path, 1, _A, image=IMAGE)
    with pytest.raises(SnapshotDamaged, match=f"snapshot with image {IMAGE.id} is damaged"):
        prune(store, Policy(last=1), host="host")
    assert key in objects(store)
    _push(store, tmp_path, 2, _B)
    assert prune(store, Policy(last=1), host="host").images == 1
    _assert_tidy(store)


def test_prune_that_is_cut_off_anywhere_is_done_by_the_next(
    backend: _AgedBackend, store: Store, tmp_path: Path
) -> None:
    """Whatever it has deleted by then."""
    for cut in range(20):
        _put_image(store, tmp_path, replace(IMAGE, id=f"{cut:064}"))
        for number in range(3):
            _push(store, tmp_path, 10 * cut + number, _RANDOM.randbytes(100))
        backend.deletes = cut
        try:
            prune(store, Policy(last=2), host="host")
        except StoreUnavailable:
            assert verify(store, read_data=True).findings == ()
        else:
            assert cut > 6
            break
        finally:
            backend.deletes = None
        backend.now += LIFE  # what it held has lapsed
    assert prune(store, Policy(last=2), host="host").packs_left == 2
    _assert_tidy(store)


def test_what_is_no_object_of_a_store_is_left_alone(store: Store, tmp_path: Path) -> None:
    """Such as what a network file system makes of a file that was deleted while open."""
    kept = _push(store, tmp_path, 1, _A)
    strange = {"packs/.nfs01", "packs/ab/.nfs02", f"snapshots/train/.{kept.snapshot}", "images/x"}
    for key in strange:
        store.backend.put(key, b"")
    assert prune(store, Policy(last=1), host="host").packs == 0
    assert strange < set(objects(store))


def test_thousands_of_snapshots_take_seconds(store: Store, tmp_path: Path) -> None:
    """Their manifests are read at once, and packs are deleted in batches."""
    described = _push(store, tmp_path, 0, _A)
    for number in range(1, 2000):
        snapshot = f"20261201T10{number:04}Z-00000a"
        store.publish(replace(described, snapshot=snapshot))
    start = time.monotonic()
    done: Pruned = prune(store, Policy(last=100), host="host")
    assert time.monotonic() - start < 10
    assert (len(done.snapshots), len(store.ids())) == (2000, 100)


@pytest.mark.s3
def test_prune_on_an_s3_server(bucket: Bucket, tmp_path: Path) -> None:
    """Its clock, its lists and its deletes are as good."""
    store = Store(open_backend(bucket.url()), Plain(STORE))
    for number in range(3):
        _push(store, tmp_path, number, _RANDOM.randbytes(1000), image=IMAGE)
    _put_image(store, tmp_path)
    _put_image(store, tmp_path, replace(IMAGE, id="4" * 64))
    shown = prune(store, Policy(last=1, within=timedelta(seconds=1)), host="host", dry_run=True)
    assert objects(store, "holds/") == {}
    time.sleep(2.1)
    done = prune(store, Policy(last=1, within=timedelta(seconds=1)), host="host")
    assert (done.images, done.packs, len(store.ids())) == (1, 3, 1)
    assert len(shown.snapshots) == len(done.snapshots)
    _assert_tidy(store)
