"""Every clock keeps the contract of `Clock`."""

from datetime import timedelta
from itertools import pairwise

import pytest

from spotrun.runtime.clock import Clock, SystemClock
from tests.fakes.clock import SteppingClock

_EACH = pytest.mark.parametrize(
    "clock", [SystemClock(), SteppingClock()], ids=lambda it: type(it).__name__
)


@_EACH
def test_time_of_day_is_utc_and_says_so(clock: Clock) -> None:
    """Instants of different hosts can be compared."""
    assert clock.now().utcoffset() == timedelta(0)


@_EACH
def test_monotonic_never_goes_back(clock: Clock) -> None:
    """Durations are not negative."""
    looks = [clock.monotonic() for _ in range(100)]
    assert all(later >= earlier for earlier, later in pairwise(looks))
