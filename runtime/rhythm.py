"""How often a job is saved while it runs on."""

import math
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from spotrun.images.care import AUTO, OVERHEAD
from spotrun.images.ledger import Summary
from spotrun.images.retention import duration

_SHORTEST: Final = 60.0
"""Seconds: a minute's work is soon done again, and each snapshot costs requests to the store."""
_LONGEST: Final = 3600.0
"""Seconds: a host that has been kind for weeks can still go, and the forecast lives on news."""
_DRAG: Final = 0.1
"""How much of the job's time is lost to it while a snapshot is stored behind its back.

At most half of the processors are used for that; a job on a GPU loses less, one on all processors
more, but not for the whole time, most of which is spent on the network.
"""
_PRIOR: Final = 4 * 3600.0
"""Seconds between two interruptions, where nothing is known; it counts like one that was seen.

Providers speak of days for most instances; but too short costs little, the overhead being bounded,
and too long costs work.
"""
_SECONDS: Final = re.compile(r"(\d{1,5})s\Z", re.ASCII)
_PERCENT: Final = re.compile(r"(\d{1,2}(?:\.\d{1,6})?)%", re.ASCII)


def every(text: str) -> float | None:
    """Read what `length` reads, or `auto`, as None; ValueError: it is neither."""
    return None if text == AUTO else length(text, "is neither auto nor an interval")


def length(text: str, trouble: str = "is not a time") -> float:
    """Read `10m`, `90s` or `1h30m`, as seconds; ValueError: it is no such time, or none at all."""
    found = _SECONDS.search(text)
    larger = text[: found.start()] if found else text
    read = timedelta(seconds=int(found[1]) if found else 0)
    try:
        read += duration(larger) if larger else timedelta()
    except ValueError:
        read = timedelta()
    if not read:
        raise ValueError(f"{text!r} {trouble} like 10m, 90s or 1h30m")
    return read.total_seconds()


def share(text: str) -> float:
    """Read `1%` or `0.5%`; ValueError: it is not such a share, or none at all."""
    found = _PERCENT.fullmatch(text)
    part = float(found[1]) / 100 if found else 0.0
    if not part:
        raise ValueError(f"{text!r} is not a share like 1% or 0.5%")
    return part


def mtbf(histories: Iterable[Summary]) -> float:
    """Return the mean seconds between interruptions, from what the jobs of a store have seen.

    Also those that were announced count: not every one will be, nor be announced in time.
    """
    seen = list(histories)
    ran, interruptions = sum(it.ran for it in seen), sum(it.interruptions for it in seen)
    return (ran + _PRIOR) / (interruptions + 1)


def interval(
    frozen: float, mtbf: float, *, behind: float = 0.0, max_overhead: float = OVERHEAD
) -> float:
    """Return the seconds from the begin of one snapshot to that of the next that lose least.

    A snapshot freezes the job for `frozen` seconds (0: not known yet) and is stored `behind` its
    back in others. The interval is sqrt(2·C·MTBF), C being what a snapshot costs (J. W. Young, "A
    first order approximation to the optimum checkpoint interval", CACM 17, 1974). The further
    terms of J. T. Daly ("A higher order estimate …", FGCS 22, 2006) are the share C/interval of
    that at most, which `max_overhead` keeps near a percent. What must not be exceeded comes first:
    the overhead, and that one snapshot is stored before the next begins.
    """
    young = math.sqrt(2 * (frozen + _DRAG * behind) * mtbf)
    wanted = min(max(young, _SHORTEST), _LONGEST)
    return max(wanted, frozen / max_overhead, frozen + behind)
