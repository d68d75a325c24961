"""Whether a last snapshot fits is told by the earlier ones, rather too late than too early."""

from collections.abc import Mapping
from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.images.manifest import Kind, Manifest, PhaseRecord
from spotrun.runtime import capture, forecast
from spotrun.runtime.forecast import Forecast, Plan, choose, needed, sentence
from tests.fakes.snapshots import manifest

_GB = 10**9
_PHASES: Mapping[str, tuple[float, int]] = {
    "preflight": (0.5, 0),
    "prepare": (0.1, 0),
    "save image": (0, 0),
    "suspend GPU": (1, 0),
    "freeze": (0.4, 0),
    "dump processes": (4, _GB),
    "copy changed files": (2, 100_000_000),
    "thaw": (0.1, 0),
    "store": (10, 500_000_000),
}
_FILES = {"criu/pages-1.img": _GB, "trees/0.tar": 100_000_000}


def _past(**changes: tuple[float, int]) -> Manifest:
    """Return the manifest of a snapshot with these phases changed, its memory being 1 GB."""
    named = {name.replace("_", " "): took for name, took in changes.items()}
    phases = (PhaseRecord(name, *took) for name, took in {**_PHASES, **named}.items())
    return manifest(parent="earlier", files=_FILES, phases=tuple(phases))


def _files_only(store: float) -> Manifest:
    phases = [it for it in _past().phases if it.name not in {"suspend GPU", "dump processes"}]
    phases[-1] = PhaseRecord("store", store, 100_000_000)
    files = {"trees/0.tar": 100_000_000}
    return replace(_past(), kind=Kind.FILES, files=files, phases=tuple(phases))


def test_job_is_told_by_its_last_snapshot() -> None:
    """Files need no dump, and at most their share of what was stored."""
    found = forecast.forecast([_past()], _GB)
    assert astuple(found) == pytest.approx((18, 5, 1))


def test_copy_beside_the_dump_is_time_that_files_need() -> None:
    """It is in the dump already."""
    beside = replace(_past(copy_changed_files=(0, 100_000_000)), copying=2)
    assert astuple(forecast.forecast([beside], _GB)) == pytest.approx((16, 5, 1))


def test_longest_of_the_last_five_counts() -> None:
    """What is longer ago does not."""
    history = [_past(store=(it, 500_000_000)) for it in (99, 10, 10, 30, 10, 10)]
    assert astuple(forecast.forecast(history, _GB)) == pytest.approx((38, 9, 5))
    assert forecast.forecast(history[:-1], _GB).seconds == pytest.approx(107)


def test_first_snapshot_tells_only_where_there_is_no_other() -> None:
    """It had to send everything."""
    first = replace(_past(store=(300, 8 * _GB)), parent=None)
    assert forecast.forecast([first], _GB).seconds == pytest.approx(308)
    assert forecast.forecast([first, _past()], _GB) == forecast.forecast([_past()], _GB)


def test_more_memory_takes_longer() -> None:
    """In dump and store, but not in what has to do with files; and less, if that is sure."""
    found = forecast.forecast([_past()], 3 * _GB)
    assert astuple(found) == pytest.approx((3 + 3 * 15, 5, 1))
    grown = replace(_past(), files={**_FILES, "criu/pages-1.img": 2 * _GB})
    assert forecast.forecast([grown], _GB) == forecast.forecast([grown], 2 * _GB)
    assert forecast.forecast([grown, _past()], _GB).seconds == pytest.approx(18)


def test_memory_of_the_gpu_is_not_forgotten() -> None:
    """It is in the dump, and not in the memory that a host sees before."""
    assert forecast.forecast([_past()], 1000) == forecast.forecast([_past()], _GB)


def test_small_job_does_not_seem_to_grow() -> None:
    """Ten times of nothing is nothing."""
    small = replace(_past(), files={"criu/pages-1.img": 1 << 20})
    seconds = forecast.forecast([small], 1 << 20).seconds
    assert forecast.forecast([small], 10 << 20).seconds == pytest.approx(seconds, rel=0.2)


def test_measured_rate_counts_instead_of_the_earlier_one() -> None:
    """The earlier ones may have been throttled, or the line may have got worse."""
    faster = forecast.forecast([_past()], _GB, 500e6)
    assert faster.seconds == pytest.approx(8 + 1 + 1.1 / 0.4)
    slower = forecast.forecast([_past()], _GB, 5e6)
    assert slower.seconds == pytest.approx(8 + 100 + 1.1 / 0.4)
    assert slower.files_seconds == pytest.approx(3 + (100 + 1.1 / 0.4) / 5)
    hasty = _past(store=(0.1, 500_000_000))
    assert forecast.forecast([hasty], _GB, 500e6).seconds == pytest.approx(8 + 1.1)


def test_snapshots_of_files_tell_of_files() -> None:
    """And nothing of the memory, which is guessed where there is nothing else."""
    found = forecast.forecast([_past(), _files_only(20)], _GB)
    assert astuple(found) == pytest.approx((23, 23, 2))
    alone = forecast.forecast([_files_only(2)], _GB)
    assert astuple(alone) == pytest.approx((5 + 10 + 40, 5, 1))


def test_job_without_snapshots_is_thought_to_be_slow() -> None:
    """A measured rate helps."""
    unknown = forecast.forecast([], 10 * _GB)
    assert unknown.basis == 0
    assert 500 < unknown.seconds < 600
    assert 50 < unknown.files_seconds < 70
    measured = forecast.forecast([], 10 * _GB, 1e9)
    assert 120 < measured.seconds < 140


def test_snapshot_that_does_not_tell_what_it_took_is_passed_over() -> None:
    """One that was imported."""
    assert forecast.forecast([manifest()], _GB).basis == 0
    assert forecast.forecast([_past(), manifest(parent="earlier")], _GB).basis == 1


def test_phases_are_those_of_a_capture() -> None:
    """A phase of another name would count for nothing."""
    names = {phase.name for phase in capture.STOP.phases}
    assert set(_PHASES) - {"thaw"} <= names
    before = [phase.name for phase in capture.STOP.phases]
    counted = set(before[: before.index(capture.STOP.commit)]) - {"save image"}
    assert counted == set(_PHASES) - {"thaw", "save image"}
    base = forecast.forecast([_past()], _GB)
    for name in counted:
        longer = forecast.forecast([_past(**{name.replace(" ", "_"): (50, 1)})], _GB)
        assert longer.seconds > base.seconds + 30, name


@pytest.mark.parametrize(
    ("found", "left", "plan", "words"),
    [
        (Forecast(30, 5, 3), 120, Plan.LIVE, "fits in 120 s: yes, 41 s"),
        (Forecast(30, 5, 3), 41, Plan.LIVE, "fits in 41 s: yes, 41 s"),
        (
            Forecast(30, 5, 3),
            40.9,
            Plan.FILES,
            "fits in 40 s: no, 41 s; files only would, 10 s",
        ),
        (
            Forecast(30, 5, 3),
            9.9,
            Plan.KEEP,
            "fits in 9 s: no, 41 s; nothing fits; the last snapshot counts",
        ),
        (
            Forecast(30, 5, 1),
            -3,
            Plan.KEEP,
            "fits in 0 s: no, 41 s; nothing fits; the last snapshot counts",
        ),
        (
            Forecast(30, 5, 0),
            120,
            Plan.LIVE,
            "fits in 120 s: yes, 41 s; a guess, until there is a snapshot",
        ),
        (
            Forecast(70, 60, 0),
            30,
            Plan.LIVE,
            "fits in 30 s: might, 91 s; a guess, until there is a snapshot",
        ),
        (
            Forecast(30, 5, 0),
            5,
            Plan.FILES,
            "fits in 5 s: no, 41 s; files only might, 10 s; a guess, until there is a snapshot",
        ),
    ],
)
def test_what_fits_is_chosen_and_said(found: Forecast, left: float, plan: Plan, words: str) -> None:
    """With room for what was not foreseen; the numbers said agree with the choice."""
    assert choose(found, left) is plan
    assert sentence(found, left) == words


_TIMES = st.floats(0, 1000)
_MANIFESTS = st.lists(
    st.builds(
        lambda dump, copy, store, memory, files, parent: replace(
            _past(dump_processes=dump, copy_changed_files=copy, store=store),
            files={"criu/pages-1.img": memory, "trees/0.tar": files},
            parent=parent,
        ),
        *[st.tuples(_TIMES, st.integers(0, 10**11)) for _ in range(3)],
        memory=st.integers(0, 10**11),
        files=st.integers(0, 10**11),
        parent=st.none() | st.just("earlier"),
    ),
    max_size=7,
)
_MEMORY = st.integers(0, 10**12)
_RATES = st.none() | st.floats(1e3, 1e10)


@given(_MANIFESTS, _MEMORY, _MEMORY, _RATES)
def test_forecast_grows_with_memory(
    history: list[Manifest], some: int, more: int, rate: float | None
) -> None:
    """Files never take longer than all, and their time does not depend on memory."""
    less, much = (forecast.forecast(history, it, rate) for it in sorted((some, some + more)))
    assert 0 < less.files_seconds == much.files_seconds
    assert less.files_seconds <= less.seconds <= much.seconds * (1 + 1e-9)
    assert less.basis <= min(5, len(history))


@given(st.floats(0, 1e6), st.floats(0, 1), st.integers(1, 5), st.floats(-10, 1e6))
def test_what_is_begun_would_end_in_time(
    seconds: float, share: float, basis: int, left: float
) -> None:
    """And what would, is not left out."""
    found = Forecast(seconds, seconds * share, basis)
    took = {Plan.LIVE: found.seconds, Plan.FILES: found.files_seconds}.get(choose(found, left))
    if took is None:
        assert needed(found.files_seconds) > left
    else:
        assert took < needed(took) <= left
