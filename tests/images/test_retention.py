"""A policy keeps what its rules name, of each job, and always the newest."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.images.care import Policy
from spotrun.images.retention import Committed, Reason, duration, judge

_NOW = datetime(2026, 12, 31, 12, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_POLICIES = st.builds(
    Policy,
    last=st.integers(0, 4),
    hourly=st.integers(0, 4),
    daily=st.integers(0, 4),
    weekly=st.integers(0, 4),
    within=st.none() | st.timedeltas(timedelta(hours=1), timedelta(days=20)),
)
_AGES = st.lists(st.integers(0, 24 * 30), max_size=30)


def _snapshots(*hours: float, job: str = "train") -> list[Committed]:
    """Return snapshots of these ages; the name of each is its age."""
    return [Committed(job, f"{10_000 - it:07.1f}", _NOW - it * _HOUR) for it in hours]


def _kept(found: list[Committed], policy: Policy) -> dict[float, tuple[Reason, ...]]:
    """Return the ages of those that are kept, and why."""
    verdicts = judge(found, policy, now=_NOW)
    return {round(10_000 - float(it.snapshot), 1): it.reasons for it in verdicts if it.reasons}


def test_policy_without_rules_keeps_all() -> None:
    """Then a prune only tidies up."""
    found = _snapshots(1, 2, 10_000)
    assert set(_kept(found, Policy())) == {1, 2, 10_000}
    assert {it.reasons for it in judge(found, Policy(), now=_NOW)} == {(Reason.NO_RULE,)}


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (Policy(last=1), {0}),
        (Policy(last=3), {0, 0.4, 0.6}),
        (Policy(hourly=2), {0, 0.4}),
        (Policy(hourly=3), {0, 0.4, 1.9}),
        (Policy(daily=2), {0, 12.5}),
        (Policy(daily=3), {0, 12.5, 84.5}),
        (Policy(weekly=2), {0, 84.5}),
        (Policy(within=_HOUR), {0, 0.4, 0.6}),
        (Policy(within=2 * _HOUR), {0, 0.4, 0.6, 1.9}),
        (Policy(within=timedelta(days=365)), {0, 0.4, 0.6, 1.9, 12.5, 30, 84.5, 200}),
        (Policy(last=1, daily=2, within=_HOUR), {0, 0.4, 0.6, 12.5}),
    ],
)
def test_rule_keeps_what_it_names(policy: Policy, kept: set[float]) -> None:
    """It is noon of a Thursday; ages are in hours."""
    assert set(_kept(_snapshots(0, 0.4, 0.6, 1.9, 12.5, 30, 84.5, 200), policy)) == kept


def test_reasons_are_told() -> None:
    """Every rule that keeps a snapshot, and that it is the newest."""
    found = _snapshots(0, 1, 30)
    policy = Policy(last=2, hourly=1, daily=2, within=_HOUR)
    assert _kept(found, policy) == {
        0: (Reason.NEWEST, Reason.LAST, Reason.HOURLY, Reason.DAILY, Reason.WITHIN),
        1: (Reason.LAST, Reason.WITHIN),
        30: (Reason.DAILY,),
    }


def test_newest_stays_however_old_it_is() -> None:
    """A job that was saved a year ago can go on."""
    assert _kept(_snapshots(9000, 9001), Policy(within=_HOUR)) == {9000: (Reason.NEWEST,)}


def test_newest_is_newest_by_the_store_and_by_name() -> None:
    """A host whose clock was wrong must not make a restore find nothing, or an old one."""
    found = [
        Committed("train", "20270101T000000Z-00000a", _NOW - 3 * _HOUR),
        Committed("train", "20261231T080000Z-00000a", _NOW - 2 * _HOUR),
        Committed("train", "20261231T070000Z-00000a", _NOW - _HOUR),
    ]
    kept = [it.snapshot[:8] for it in judge(found, Policy(last=1), now=_NOW) if it.reasons]
    assert kept == ["20270101", "20261231"]
    assert judge(found, Policy(last=1), now=_NOW)[1].reasons == ()


def test_jobs_are_apart() -> None:
    """Each has its own last ones, and a rule for one says nothing of another."""
    found = _snapshots(1, 2, job="a") + _snapshots(3, 4, job="b")
    of_all = [(it.job, bool(it.reasons)) for it in judge(found, Policy(last=1), now=_NOW)]
    of_one = [(it.job, bool(it.reasons)) for it in judge(found, Policy(last=1), now=_NOW, job="a")]
    assert of_all == [("a", False), ("a", True), ("b", False), ("b", True)]
    assert of_one == [("a", False), ("a", True), ("b", True), ("b", True)]


def test_unsent_snapshot_stays() -> None:
    """It is nowhere else yet."""
    found = _snapshots(1, 2, 3)
    verdicts = judge(found, Policy(last=1), now=_NOW, staying={found[1].snapshot: Reason.UNSENT})
    assert [it.reasons for it in verdicts] == [(), (Reason.UNSENT,), (Reason.NEWEST, Reason.LAST)]


@given(_POLICIES, _AGES)
def test_policy_keeps_at_most_what_its_numbers_say(policy: Policy, ages: list[int]) -> None:
    """And at least one, and never more with a stricter rule."""
    found = _snapshots(*dict.fromkeys(ages))
    kept = _kept(found, policy)
    for reason, most in zip(
        (Reason.LAST, Reason.HOURLY, Reason.DAILY, Reason.WEEKLY),
        (policy.last, policy.hourly, policy.daily, policy.weekly),
        strict=True,
    ):
        assert sum(reason in it for it in kept.values()) <= most
    assert bool(kept) == bool(found)
    assert not found or min(ages) in kept


@given(_POLICIES, _AGES)
def test_what_is_kept_is_kept_again(policy: Policy, ages: list[int]) -> None:
    """A second prune at the same time removes nothing."""
    kept = _kept(_snapshots(*dict.fromkeys(ages)), policy)
    assert _kept(_snapshots(*kept), policy) == kept


@pytest.mark.parametrize(
    ("text", "hours"), [("2d", 48), ("12h", 12), ("1w3d", 240), ("90m", 1.5), ("1w2d3h30m", 219.5)]
)
def test_duration_is_read(text: str, hours: float) -> None:
    """Weeks, days, hours and minutes, in this order."""
    assert duration(text) == hours * _HOUR


@pytest.mark.parametrize(
    "text", ["", "2", "d", "0d", "-1d", "1.5h", "3h2d", "2 d", "2d ", "2y", "٢d", "1234567d"]
)
def test_senseless_duration_is_refused(text: str) -> None:
    """The text is in the message."""
    with pytest.raises(ValueError, match="is not a duration like 2d, 12h or 1w3d"):
        duration(text)
