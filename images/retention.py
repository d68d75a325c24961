"""Which snapshots a policy keeps, and why.

Ages are by the store's clock: when a manifest was committed, not when its host says it was made.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from spotrun.images.care import Policy
from spotrun.images.holds import LIFE

_DURATION: Final = re.compile("".join(rf"(?:(\d{{1,5}}){unit})?" for unit in "wdhm"), re.ASCII)


class Reason(StrEnum):
    """Why a snapshot is kept."""

    NEWEST = "newest"
    """Of its job: always."""
    LAST = "last"
    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    WITHIN = "within"
    EARLIER = "earlier"
    """It is of a time before its job began anew."""
    UNSENT = "unsent"
    """It is to be sent to another store first."""
    PENDING = "pending"
    """Its job's lease does not name it, but may be about to: it is less than a day old."""
    NO_RULE = "no-rule"
    """Nothing was said about snapshots of its job."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A snapshot in a list of the store."""

    job: str
    snapshot: str
    modified: datetime
    """When it was committed, by the store's clock."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a snapshot."""

    job: str
    snapshot: str
    modified: datetime
    reasons: tuple[Reason, ...]
    """Why it is kept; empty: it is not."""


def judge(
    found: Iterable[Committed],
    policy: Policy,
    *,
    now: datetime,
    job: str | None = None,
    staying: Mapping[str, Reason] = MappingProxyType({}),
    uncommitted: Collection[tuple[str, str]] = (),
) -> list[Verdict]:
    """Apply a policy to each job, or to one; sorted by job, then oldest first.

    Whatever it says, those that are `staying`, by id, do so for the reason that is given, and those
    that are `uncommitted`, by job and id, for a day.
    """
    jobs: dict[str, list[Committed]] = defaultdict(list)
    for it in found:
        jobs[it.job].append(it)
    verdicts = []
    for name, them in sorted(jobs.items()):
        them.sort(key=lambda it: (it.modified, it.snapshot))
        if policy.keeps_all or job not in {None, name}:
            reasons = {it.snapshot: [Reason.NO_RULE] for it in them}
        else:
            counting = [it for it in them[::-1] if (name, it.snapshot) not in uncommitted]
            reasons = _reasons(counting, policy, now)
            for it in them:
                if (name, it.snapshot) in uncommitted and now - it.modified < LIFE:
                    reasons[it.snapshot].append(Reason.PENDING)
                if it.snapshot in staying:
                    reasons[it.snapshot].append(staying[it.snapshot])
        verdicts += [
            Verdict(name, it.snapshot, it.modified, tuple(reasons.get(it.snapshot, ())))
            for it in them
        ]
    return verdicts


def duration(text: str) -> timedelta:
    """Read `2d`, `12h`, `1w3d` or `90m`; ValueError: it is none of these."""
    found = _DURATION.fullmatch(text)
    weeks, days, hours, minutes = (int(it or 0) for it in found.groups()) if found else (0,) * 4
    length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes)
    if not length:
        raise ValueError(f"{text!r} is not a duration like 2d, 12h or 1w3d")
    return length


def _reasons(
    newest_first: list[Committed], policy: Policy, now: datetime
) -> dict[str, list[Reason]]:
    """Return why each snapshot of one job is kept, of those that are."""
    reasons: dict[str, list[Reason]] = defaultdict(list)
    # The last one that was committed, and the one whose name is the last, which a restore takes:
    # not the same where the clocks of two hosts differ.
    names = [it.snapshot for it in newest_first]
    for name in sorted({*names[:1], *sorted(names)[-1:]}):
        reasons[name].append(Reason.NEWEST)
    for reason, kept in (
        (Reason.LAST, newest_first[: policy.last]),
        (Reason.HOURLY, _periods(newest_first, policy.hourly, "%Y-%m-%dT%H")),
        (Reason.DAILY, _periods(newest_first, policy.daily, "%Y-%m-%d")),
        (Reason.WEEKLY, _periods(newest_first, policy.weekly, "%G-W%V")),
        (Reason.WITHIN, _within(newest_first, policy.within, now)),
    ):
        for it in kept:
            reasons[it.snapshot].append(reason)
    return reasons


def _periods(newest_first: list[Committed], count: int, period: str) -> Iterator[Committed]:
    """Yield the newest snapshot of each of the last periods, given as a format of time."""
    seen: set[str] = set()
    for it in newest_first:
        name = it.modified.astimezone(UTC).strftime(period)
        if name not in seen and len(seen) < count:
            seen.add(name)
            yield it


def _within(
    newest_first: list[Committed], within: timedelta | None, now: datetime
) -> Iterator[Committed]:
    if within is not None:
        yield from (it for it in newest_first if now - it.modified <= within)
