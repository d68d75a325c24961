"""What has happened to a job is told by its store, to whoever asks."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.images import ledger
from spotrun.images.backends import open_backend
from spotrun.images.backends.base import Backend
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.care import Policy
from spotrun.images.ledger import Event, Kind, Rung, Summary, summarise
from spotrun.images.prune import prune
from spotrun.images.repair import repair
from spotrun.images.seal import seal_document
from spotrun.images.store import Store
from spotrun.images.verify import verify
from tests.fakes.seaweed import Bucket
from tests.fakes.snapshots import NOW, publish
from tests.fakes.stores import keyed, objects, plain

_JOB = "train"
_FIRST, _SECOND = "20261201T100000Z-00000a", "20261201T110000Z-00000b"


@pytest.fixture(params=["memory", "directory", pytest.param("s3", marks=pytest.mark.s3)])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Give an empty backend of each kind."""
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        return open_backend(bucket.url())
    return MemoryBackend() if request.param == "memory" else open_backend(str(tmp_path / "store"))


def _event(
    kind: Kind,
    seconds: float = 0,
    *,
    epoch: int = 1,
    host: str = "host-a",
    snapshot: str | None = None,
    took: float = 0.0,
    frozen: float = 0.0,
    rung: Rung | None = None,
) -> Event:
    """Return an event that happened so many seconds after the first one."""
    return Event(
        at=(NOW + timedelta(seconds=seconds)).isoformat(timespec="milliseconds"),
        host=host,
        epoch=epoch,
        kind=kind,
        snapshot=snapshot,
        rung=rung,
        seconds=took,
        frozen_seconds=frozen,
        bytes=1000 if kind == "snapshot" else 0,
    )


def _recorded(store: Store, found: Sequence[Event], job: str = _JOB) -> None:
    for event in found:
        ledger.record(store, job, event)


_LIFE = [
    _event("started"),
    _event("snapshot", 610, snapshot=_FIRST, took=10, frozen=2),
    _event("notice", 1000),
    _event("snapshot", 1030, snapshot=_SECOND, took=25, frozen=20),
    _event("stopped", 1031, snapshot=_SECOND, took=31),
    _event("restored", 1200, snapshot=_SECOND, rung="live", epoch=2, host="host-b"),
]
"""A job that was saved after 600 and 1005 seconds, 2 of which it was frozen, and went on."""


def test_events_are_read_in_their_order(backend: Backend) -> None:
    """However they were written; those of other jobs are not among them."""
    store = plain(backend)
    _recorded(store, [*_LIFE[3:], *_LIFE[2::-1]])
    _recorded(store, _LIFE[:1], "train.2")
    assert ledger.events(store, _JOB) == _LIFE
    assert ledger.read(store, _JOB).unreadable == 0
    assert ledger.jobs(store) == ["train", "train.2"]
    assert ledger.events(store, "other") == []


def test_newest_events_are_read_alone(backend: Backend) -> None:
    """No other one is asked for."""
    store = plain(backend)
    _recorded(store, _LIFE)
    assert list(ledger.read(store, _JOB, 2).events) == _LIFE[-2:]
    assert list(ledger.read(store, _JOB, 99).events) == _LIFE


def test_jobs_that_were_heard_of_last_come_first(backend: Backend) -> None:
    """Whatever their names are, and however much is told of them."""
    store = plain(backend)
    _recorded(store, _LIFE)
    _recorded(store, [_event("started", 2000)], "a")
    _recorded(store, [_event("started", 500), _event("ended", 600)], "z")
    assert ledger.lately(store) == ["a", _JOB, "z"]
    assert ledger.lately(plain()) == []


def test_all_that_is_said_is_kept(backend: Backend) -> None:
    """Each field of it."""
    said = Event(
        at="2026-12-01T11:00:00.125+01:00",
        host="host-a",
        epoch=7,
        kind="notice",
        snapshot=_FIRST,
        rung="files",
        reason="spot instance action: terminate",
        seconds=1.5,
        frozen_seconds=0.25,
        bytes=3,
        deadline=119.5,
    )
    store = plain(backend)
    ledger.record(store, _JOB, said)
    assert ledger.events(store, _JOB) == [said]
    (key,) = objects(store)
    assert key.startswith("history/train/20261201T100000.125000Z-")


def test_hosts_whose_clocks_differ_are_in_the_order_of_epochs() -> None:
    """The job was on host-b after it had been on host-a, whose clock is a day ahead."""
    store, day = plain(), 86400
    _recorded(store, [_event("restored", 5, epoch=2, host="host-b"), _event("started", day)])
    assert [it.host for it in ledger.events(store, _JOB)] == ["host-a", "host-b"]


def test_events_of_one_instant_are_in_the_order_of_a_life() -> None:
    """Names that are random do not mix them up."""
    life: tuple[Kind, ...] = ("started", "notice", "snapshot", "stopped")
    for _ in range(5):
        store = plain()
        _recorded(store, [_event(kind) for kind in life[::-1]])
        assert tuple(it.kind for it in ledger.events(store, _JOB)) == life


def test_event_that_cannot_be_read_is_left_out_and_counted() -> None:
    """Damaged, another one's, of a later spotrun, or without a time."""
    store = plain()
    _recorded(store, _LIFE)
    key, raw = next(iter(objects(store).items()))
    later = msgspec.to_builtins(_LIFE[0]) | {"kind": "cloned"}
    timeless = msgspec.to_builtins(_LIFE[0]) | {"at": "today"}
    bad = {
        "history/train/a": raw[:-1] + b"?",
        "history/train/b": raw,
        "history/train/c": b"",
        "history/train/d": seal_document(store.seal, "history/train/d", b"{}"),
    }
    for name, said in {"e": later, "f": timeless}.items():
        at = f"history/train/{name}"
        bad[at] = seal_document(store.seal, at, msgspec.json.encode(said))
    for name, content in bad.items():
        store.backend.put(name, content)
    found = ledger.read(store, _JOB)
    assert (list(found.events), found.unreadable) == (_LIFE, len(bad))
    assert key not in bad


def test_history_of_an_encrypted_store_is_secret() -> None:
    """Nobody but who has the key can read it."""
    store = keyed()
    _recorded(store, _LIFE)
    assert ledger.events(store, _JOB) == _LIFE
    assert not any(b"host-a" in raw for raw in objects(store).values())


def test_event_is_never_changed() -> None:
    """Two of the same content are two."""
    store = plain()
    _recorded(store, [_LIFE[0]])
    before = objects(store)
    _recorded(store, [_LIFE[0], _LIFE[0]])
    after = objects(store)
    assert len(after) == 3
    assert {key: after[key] for key in before} == before


def test_prune_and_verify_leave_history_alone() -> None:
    """Also that of a job of which nothing else is left."""
    store = plain()
    publish(store)
    _recorded(store, _LIFE)
    _recorded(store, _LIFE, "gone")
    before = objects(store, ledger.PREFIX)
    store.remove("train", *(it for _, it in store.ids("train")))
    prune(store, Policy(last=1), host="host-a")
    repair(store, host="host-a", read_data=True, apply=True)
    found = verify(store, read_data=True)
    assert (found.findings, found.lost, found.unneeded) == ((), (), 0)
    assert objects(store) == before


def test_damaged_event_is_found_and_set_aside() -> None:
    """The others stay, and so does one of a later spotrun."""
    store = plain()
    _recorded(store, _LIFE)
    later = f"{ledger.PREFIX}{_JOB}/later"
    store.backend.put(later, seal_document(store.seal, later, b'{"kind":"cloned"}'))
    key = f"{ledger.PREFIX}{_JOB}/broken"
    store.backend.put(key, b"broken")
    found = verify(store, read_data=False)
    assert [(it.key, it.snapshots) for it in found.findings] == [(key, ())]
    assert found.lost == (key,)
    done = repair(store, host="host-a", read_data=False, apply=True)
    assert (done.set_aside, done.left) == ((key,), ())
    assert objects(store, "damaged/") == {f"damaged/{key}": b"broken"}
    assert ledger.read(store, _JOB) == ledger.History(tuple(_LIFE), 1)


def test_history_goes_with_its_job(backend: Backend) -> None:
    """And that of no other one."""
    store = plain(backend)
    _recorded(store, _LIFE)
    _recorded(store, _LIFE[:1], "train2")
    ledger.forget(store, _JOB)
    assert ledger.jobs(store) == ["train2"]


def test_life_of_a_job_is_summed_up() -> None:
    """On two hosts: it would have had to do 1003 seconds of work again."""
    assert summarise(_LIFE) == Summary(
        hosts=("host-a", "host-b"),
        runs=2,
        interruptions=1,
        notices=1,
        snapshots=2,
        bytes=2000,
        frozen=22,
        ran=1031,
        saved=1003,
    )
    assert summarise(_LIFE).mtbf == 1031


def test_job_without_a_history_has_nothing_to_sum_up() -> None:
    """Nor was it ever interrupted."""
    assert summarise([]) == Summary((), 0, 0, 0, 0, 0, 0, 0, 0)
    assert summarise([]).mtbf is None
    assert summarise([_event("started"), _event("ended", 50)]).mtbf is None


def test_host_that_dies_is_an_interruption_of_which_nobody_told() -> None:
    """What it did after its last word does not count, and what was not saved is lost."""
    life = [
        _event("started"),
        _event("snapshot", 600, snapshot=_FIRST),
        _event("restored", 5000, epoch=2, rung="live", snapshot=_FIRST),
        _event("snapshot", 5300, epoch=2, snapshot=_SECOND),
        _event("restored", 9000, epoch=3, rung="live", snapshot=_FIRST),
    ]
    found = summarise(life)
    assert (found.interruptions, found.ran, found.saved) == (2, 900, 600)
    life[-1] = replace(life[-1], snapshot=_SECOND)
    assert summarise(life).saved == 900


@pytest.mark.parametrize(
    ("rung", "snapshot"),
    [("files", _SECOND), ("fresh", None), (None, _SECOND), ("live", "20261201T000000Z-00000c")],
)
def test_work_is_saved_by_what_is_known_to_go_on(rung: Rung | None, snapshot: str | None) -> None:
    """Neither by files, of which only the job knows what they are worth, nor by unknown ones."""
    restored = replace(_LIFE[-1], rung=rung, snapshot=snapshot)
    assert summarise([*_LIFE[:-1], restored]).saved == 0


def test_job_that_is_found_again_goes_on_with_its_run() -> None:
    """Its supervisor was killed, and took the lease anew; then it ended by itself."""
    life = [
        _event("started"),
        _event("frozen", 90, frozen=30),
        _event("snapshot", 200, epoch=2, snapshot=_FIRST, took=10),
        _event("ended", 300, epoch=2),
    ]
    found = summarise(life)
    assert (found.runs, found.interruptions, found.ran, found.frozen) == (1, 0, 300, 30)
    life.append(_event("restored", 400, epoch=3, rung="live", snapshot=_FIRST))
    assert summarise(life).saved == 160


def test_lease_that_is_lost_is_an_interruption() -> None:
    """Also if the job is not seen again; what the host says later is of another epoch."""
    life = [_event("started"), _event("lost", 100), _event("frozen", 500, frozen=400)]
    found = summarise(life)
    assert (found.interruptions, found.ran) == (1, 100)


_EVENTS = st.lists(
    st.builds(
        _event,
        st.sampled_from(get_args(Kind)),
        st.integers(-1000, 100_000),
        epoch=st.integers(0, 4),
        snapshot=st.sampled_from([None, _FIRST, _SECOND]),
        took=st.floats(0, 500),
        frozen=st.floats(0, 500),
        rung=st.sampled_from([None, "live", "files", "fresh"]),
    ),
    max_size=20,
)


@given(_EVENTS)
def test_nothing_is_claimed_that_was_not_run(found: list[Event]) -> None:
    """Whatever a ledger says, in whatever order."""
    summary = summarise(found)
    assert 0 <= summary.saved <= summary.ran + 1e-6
    assert summary.interruptions <= summary.runs <= len(found)
    assert summary.frozen >= 0


@given(_EVENTS)
def test_what_is_read_is_what_was_written(found: list[Event]) -> None:
    """Sorted by epoch, then by time."""
    store = plain()
    _recorded(store, found)
    seen = ledger.events(store, _JOB)
    assert sorted(map(repr, seen)) == sorted(map(repr, found))
    keys = [(it.epoch, datetime.fromisoformat(it.at).astimezone(UTC)) for it in seen]
    assert keys == sorted(keys)
