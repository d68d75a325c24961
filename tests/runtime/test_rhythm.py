"""A job is saved as often as loses least, within what its user grants."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.images.ledger import Summary
from spotrun.runtime.rhythm import every, interval, mtbf, share

_HOUR = 3600.0
_SECONDS = st.floats(0, 1000)
_MTBFS = st.floats(60, 1e7)
_SHARES = st.floats(0.001, 1)


def _seen(hours: float, interruptions: int) -> Summary:
    return Summary((), 1, interruptions, 0, 0, 0, 0.0, hours * _HOUR, 0.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("90s", 90), ("1h", 3600), ("1h30m", 5400), ("2m30s", 150), ("1d", 86400)],
)
def test_interval_is_read(text: str, seconds: float) -> None:
    """As durations are elsewhere, and in seconds."""
    assert every(text) == seconds


def test_auto_is_no_interval() -> None:
    """Somebody has to find one."""
    assert every("auto") is None


@pytest.mark.parametrize(
    "text", ["", "0s", "0m", "10", "s", "m", "-1s", "1.5m", "90s1m", "Auto", "1 m", "1s\n", "٢s"]
)
def test_senseless_interval_is_refused(text: str) -> None:
    """The text is in the message."""
    with pytest.raises(ValueError, match="is neither auto nor an interval like 10m, 90s or 1h30m"):
        every(text)


@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_every_interval_can_be_written(hours: int, minutes: int, seconds: int) -> None:
    """And is read as it was written."""
    parts = {"h": hours, "m": minutes, "s": seconds}
    text = "".join(f"{number}{unit}" for unit, number in parts.items() if number)
    if text:
        assert every(text) == hours * 3600 + minutes * 60 + seconds


@pytest.mark.parametrize(("text", "part"), [("1%", 0.01), ("0.5%", 0.005), ("20%", 0.2)])
def test_share_is_read(text: str, part: float) -> None:
    """In percent."""
    assert share(text) == pytest.approx(part)


@pytest.mark.parametrize("text", ["", "%", "0%", "0.0%", "1", "-1%", "100%", "1 %", "٢%", "nan%"])
def test_senseless_share_is_refused(text: str) -> None:
    """The text is in the message."""
    with pytest.raises(ValueError, match=r"is not a share like 1% or 0\.5%"):
        share(text)


def test_interruptions_are_expected_every_four_hours_at_first() -> None:
    """What is seen soon counts for more."""
    assert mtbf([]) == 4 * _HOUR
    assert mtbf([_seen(0.5, 0)]) == 4.5 * _HOUR
    assert mtbf([_seen(2, 2)]) == 2 * _HOUR
    assert mtbf([_seen(100, 0), _seen(20, 9), _seen(30, 20)]) == pytest.approx(154 / 30 * _HOUR)


def test_interval_is_youngs() -> None:
    """What is stored behind the job's back costs something, too."""
    assert interval(2, 4 * _HOUR, max_overhead=0.5) == pytest.approx(math.sqrt(4 * 4 * _HOUR))
    dragged = interval(2, 4 * _HOUR, behind=30, max_overhead=0.5)
    assert dragged == pytest.approx(math.sqrt(10 * 4 * _HOUR))


def test_overhead_comes_before_lost_work() -> None:
    """Half a minute frozen for a job that is interrupted every hour: 1 % are 50 minutes."""
    assert interval(30, _HOUR) == pytest.approx(3000)
    assert interval(30, _HOUR, max_overhead=0.1) == pytest.approx(math.sqrt(60 * _HOUR))
    assert interval(60, _HOUR) == pytest.approx(6000)


def test_interval_stays_within_reason() -> None:
    """A minute where nothing has been measured yet, an hour where nothing ever happens."""
    assert interval(0, 4 * _HOUR) == 60
    assert interval(2, 10_000 * _HOUR) == 3600


def test_one_snapshot_is_stored_before_the_next_begins() -> None:
    """However slow the store is."""
    assert interval(5, _HOUR, behind=5000) == 5005


@given(_SECONDS, _MTBFS, _SECONDS, _SHARES)
def test_job_is_not_frozen_for_longer_than_granted(
    frozen: float, mean: float, behind: float, overhead: float
) -> None:
    """Nor saved more than once a minute, nor while it is being saved."""
    found = interval(frozen, mean, behind=behind, max_overhead=overhead)
    assert frozen <= found * overhead * (1 + 1e-9)
    assert found >= max(60, frozen + behind)


@given(_SECONDS, st.floats(0, 100), _MTBFS, st.floats(0, 1e6), _SECONDS)
def test_dearer_snapshots_and_kinder_hosts_mean_fewer(
    frozen: float, dearer: float, mean: float, kinder: float, behind: float
) -> None:
    """Never more."""
    found = interval(frozen, mean, behind=behind)
    assert interval(frozen + dearer, mean, behind=behind) >= found
    assert interval(frozen, mean + kinder, behind=behind) >= found


@given(st.floats(0.1, 30), _MTBFS)
def test_neighbouring_intervals_lose_more(frozen: float, mean: float) -> None:
    """Where no bound speaks: half an interval's work for each interruption, and the freezes."""
    found = interval(frozen, mean, max_overhead=1)

    def lost(every: float) -> float:
        return frozen / every + every / 2 / mean

    if 60 < found < 3600:
        assert lost(found) <= min(lost(found * 1.2), lost(found / 1.2))
