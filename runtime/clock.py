"""The clock seam."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Callers may rely on: `monotonic` never goes back on this host."""

    def now(self) -> datetime:
        """Return the time of day, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary instant."""
        ...


class SystemClock:
    """The clock of this host."""

    def now(self) -> datetime:
        """Read the wall clock."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Read the steady clock."""
        return time.monotonic()
