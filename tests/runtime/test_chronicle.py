"""What a host writes into the ledger of a job, where nothing may fail by it."""

import platform
from dataclasses import replace

import pytest

from spotrun.images import ledger
from spotrun.images.address import Address
from spotrun.images.care import Care
from spotrun.images.ledger import Event
from spotrun.images.manifest import Kind, Manifest, PhaseRecord
from spotrun.runtime import chronicle
from spotrun.runtime.host import Host
from spotrun.runtime.past import Past
from tests.fakes.living import JOB, Living
from tests.fakes.snapshots import manifest

_RUNNING = {
    "preflight": 1.0,
    "prepare": 2.0,
    "save image": 4.0,
    "suspend GPU": 8.0,
    "freeze": 16.0,
    "dump processes": 32.0,
    "copy changed files": 64.0,
    "thaw": 128.0,
    "store": 256.0,
}
"""What phases take, each twice as long as the one before, so that no two sums are the same."""


def _made(*without: str, **changes: object) -> Manifest:
    phases = (
        PhaseRecord(name, took, 1000 if name == "store" else 7)
        for name, took in _RUNNING.items()
        if name not in without
    )
    return manifest(phases=tuple(phases), **changes)


def _events(here: Living) -> list[Event]:
    return ledger.events(here.elsewhere, JOB)


def test_event_has_its_host_and_time(here: Living) -> None:
    """And the epoch that it belongs to."""
    chronicle.write(
        here.host, JOB, here.address, "notice", epoch=3, reason="aws: stop", deadline=120.0
    )
    (event,) = _events(here)
    assert event == Event(
        at="2026-12-01T10:00:01.000+00:00",
        host=platform.node(),
        epoch=3,
        kind="notice",
        reason="aws: stop",
        deadline=120.0,
    )


def test_store_that_does_not_take_an_event_is_no_trouble(here: Living) -> None:
    """Neither is one that is not there at all; what can be written later is."""
    here.network.cut = True
    chronicle.write(here.host, JOB, here.address, "started", epoch=1)
    chronicle.snapshot(here.host, manifest(), here.address)
    here.network.cut = False
    chronicle.write(here.host, JOB, Address(str(here.host.paths.run / "no")), "ended", epoch=1)
    chronicle.write(here.host, JOB, here.address, "ended", epoch=1)
    assert [it.kind for it in _events(here)] == ["ended"]


def test_snapshot_is_told_with_what_it_took(here: Living) -> None:
    """And for how long the job was frozen for it, if that went on."""
    chronicle.snapshot(here.host, _made(left_running=True, epoch=2), here.address)
    (event,) = _events(here)
    assert (event.kind, event.epoch, event.snapshot) == ("snapshot", 2, manifest().snapshot)
    assert (event.seconds, event.frozen_seconds, event.bytes) == (511.0, 120.0, 1000)


def test_last_snapshot_of_a_job_has_not_held_it_up(here: Living) -> None:
    """It was to end in any case."""
    chronicle.snapshot(here.host, _made("thaw", left_running=False), here.address)
    (event,) = _events(here)
    assert (event.seconds, event.frozen_seconds) == (383.0, 0.0)


def test_snapshot_that_does_not_tell_what_it_took_is_told_all_the_same(here: Living) -> None:
    """One that was imported."""
    chronicle.snapshot(here.host, manifest(), here.address)
    (event,) = _events(here)
    assert (event.seconds, event.frozen_seconds, event.bytes) == (0.0, 0.0, 0)


@pytest.mark.parametrize(
    ("made", "frozen", "behind"),
    [
        (_made(), 120.0, 256.0),
        (_made("thaw"), 376.0, 0.0),
        (manifest(), 0.0, 0.0),
        (_made("suspend GPU", "dump processes", "thaw", kind=Kind.FILES), 0.0, 0.0),
    ],
    ids=["left running", "ended", "not told", "files"],
)
def test_time_is_parted_into_frozen_and_behind_the_jobs_back(
    made: Manifest, frozen: float, behind: float
) -> None:
    """The thaw itself is neither."""
    assert chronicle.frozen(made) == frozen
    assert chronicle.behind(made) == behind


def test_names_of_phases_are_those_of_a_capture(here: Living) -> None:
    """A phase of another name would make every freeze as long as none."""
    here.begin()
    running, last = here.save(), here.save(leave_running=False)
    assert 0 < chronicle.frozen(running) < sum(it.seconds for it in running.phases)
    assert chronicle.behind(running) > 0
    assert 0 < chronicle.frozen(last) < sum(it.seconds for it in last.phases)
    assert chronicle.behind(last) == 0


def _life(begin: int, end: int, kind: ledger.Kind = "lost") -> list[Event]:
    """Return the events of a run at these hours of one day."""
    at = "2026-12-01T{:02}:00:00Z"
    first = Event(at=at.format(begin), host="host-a", epoch=1, kind="started")
    return [first, replace(first, at=at.format(end), kind=kind)]


def test_interruptions_of_the_stores_other_jobs_count(here: Living) -> None:
    """As the job's own: it is on hosts like theirs."""
    for job, events in {
        JOB: _life(10, 12),
        "other": _life(10, 13),
        "third": _life(10, 15, "ended"),
    }.items():
        for event in events:
            ledger.record(here.elsewhere, job, event)
    known = pytest.approx((2 + 3 + 5 + 4) * 3600 / 3)
    assert chronicle.mtbf(here.host, JOB, here.address) == known


def test_no_more_is_read_than_tells_of_late(here: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the jobs that were heard of last, their last events; of the own one, more."""
    monkeypatch.setattr(chronicle, "_OTHERS", 2)
    monkeypatch.setattr(chronicle, "_THEIRS", 3)
    for number in range(5):
        for hour in range(number, 10 + number):
            for event in _life(hour, hour):
                ledger.record(here.elsewhere, f"job-{number}" if number else JOB, event)
    get, read = here.network.get, []

    def noted(key: str) -> bytes:
        read.append(key.split("/"))
        return get(key)

    monkeypatch.setattr(here.network, "get", noted)
    chronicle.mtbf(here.host, JOB, here.address)
    jobs = [parts[1] for parts in read if parts[0] == "history"]
    assert {job: jobs.count(job) for job in jobs} == {JOB: 20, "job-4": 3, "job-3": 3}


def test_interval_that_its_user_has_chosen_asks_no_history(
    here: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it is asked once."""
    asked: list[str] = []

    def told(_: Host, job: str, __: Address) -> float:
        asked.append(job)
        return 3600.0

    monkeypatch.setattr(chronicle, "mtbf", told)
    taken = here.take()
    assert Past(here.host, taken, Care(every="10m")).interval() == 600
    assert asked == []
    past = Past(here.host, taken, Care())
    assert past.interval() == past.interval()
    assert asked == [JOB]


def test_interruptions_are_counted_from_the_history(here: Living) -> None:
    """A job of which nothing is known, or of which nothing can be, is expected to run for hours."""
    unknown = chronicle.mtbf(here.host, JOB, here.address)
    assert unknown == 4 * 3600
    ago = Event(at="2026-12-01T10:00:00Z", host="host-a", epoch=1, kind="started")
    for event in (
        ago,
        replace(ago, kind="stopped", at="2026-12-01T12:00:00Z"),
        replace(ago, kind="restored", epoch=2, at="2026-12-01T13:00:00Z", host="host-b"),
        replace(ago, kind="lost", epoch=2, at="2026-12-01T16:00:00Z", host="host-b"),
    ):
        ledger.record(here.elsewhere, JOB, event)
    assert chronicle.mtbf(here.host, JOB, here.address) == pytest.approx((2 + 3 + 4) * 3600 / 3)
    here.network.cut = True
    assert chronicle.mtbf(here.host, JOB, here.address) == unknown


def test_beginning_is_found_behind_however_many_events(
    here: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one counts; a ledger without any tells of none."""
    monkeypatch.setattr(chronicle, "_OWN", 2)
    assert chronicle.begun(here.store, JOB) == 0
    behind: list[ledger.Kind] = ["notice"] * 9
    kinds: list[ledger.Kind] = ["started", "restored", "started", *behind]
    for epoch, kind in enumerate(kinds, start=1):
        chronicle.write(here.host, JOB, here.address, kind, epoch=epoch)
    assert chronicle.begun(here.store, JOB) == 3
