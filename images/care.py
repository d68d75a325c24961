"""How a job is looked after, on this host and on every later one, as its user said."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

AUTO: Final = "auto"
OVERHEAD: Final = 0.01


@dataclass(frozen=True, slots=True)
class Policy:
    """What is to be kept of each job; by default everything."""

    last: int = 0
    """So many of the newest."""
    hourly: int = 0
    """The newest of each of the so many last hours, in UTC, that have any."""
    daily: int = 0
    weekly: int = 0
    within: timedelta | None = None
    """All that are not older."""

    @property
    def keeps_all(self) -> bool:
        """Tell whether it has no rule."""
        return self == Policy()


@dataclass(frozen=True, slots=True)
class Care:
    """The wishes of one job's user."""

    every: str = AUTO
    """Time between two snapshots, like `10m`; `auto`: as the history of its store advises."""
    max_overhead: float = OVERHEAD
    """Share of its time that the job may spend frozen for them, if that is left to us."""
    upload_limit: int | None = None
    """Bytes a second that a snapshot may take from the line while the job goes on."""
    keep: Policy = field(default_factory=Policy)
    """What stays of its snapshots; by default all."""
    probe: str | None = None
    """What must hold soon after a restore (runtime/probe.py)."""
    resume_command: str | None = None
    """What starts it where only its files could be brought back; None: its own command."""
    notice_command: str | None = None
    """It ends with 0 when this host is about to go."""
    grace: float | None = None
    """Seconds between SIGTERM and the end, if that is known."""
