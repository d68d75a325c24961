"""A clock that moves only when it is looked at."""

from datetime import UTC, datetime, timedelta


class SteppingClock:
    """Goes on by one second with every look at the time of day, and half of one with the other."""

    def __init__(self, start: datetime = datetime(2026, 12, 1, 10, tzinfo=UTC)) -> None:
        """Begin at `start`."""
        self._now = start
        self._monotonic = 100.0

    def now(self) -> datetime:
        """Go on by a second and return the time of day."""
        self._now += timedelta(seconds=1)
        return self._now

    def monotonic(self) -> float:
        """Go on by half a second and return it."""
        self._monotonic += 0.5
        return self._monotonic
