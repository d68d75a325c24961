"""What a notice is, whoever gave it, and what a source of notices does."""

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

FILE: Final = "file"
"""The source of notices that somebody on this host passes on."""


class Kind(StrEnum):
    """What is going to happen to this host."""

    PREEMPT = "preempt"
    """It is taken back, in a way that the source does not tell."""
    STOP = "stop"
    TERMINATE = "terminate"
    HIBERNATE = "hibernate"
    REBOOT = "reboot"
    SHUTDOWN = "shutdown"
    """spotrun itself is to end."""
    MAINTENANCE = "maintenance"
    REBALANCE = "rebalance"
    """It is likelier than usual to be taken back."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One event that awaits this host."""

    source: str
    kind: Kind
    event: str
    """Tells it from the source's other events, and is the same however often it is read."""
    words: str
    """What the source itself said, for people."""
    order: bool
    """True: what is not saved at the deadline is lost. That may be in days, which is time for a
    snapshot now and for leaving later. False, advice: nothing may come of it; a snapshot is wise.
    """
    deadline: float | None = None
    """By `time.monotonic` of this host, good to a second; it may be past. None: nobody says."""

    @property
    def told(self) -> str:
        """Return who says what, for people; what is in a file says who has written it."""
        if self.source == FILE and self.words:
            return self.words
        return f"{self.source}: {self.kind} {self.words}".strip()

    def left(self) -> float | None:
        """Return the seconds to the deadline, none of them if it is past."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


class NothingToAcknowledge:
    """A source whose provider waits for no answer."""

    def acknowledge(self, notice: Notice) -> None:
        """Do nothing."""


class NoticeSource(Protocol):
    """Somebody who gives notice.

    Callers may rely on: no method raises because of what the other side does, be it silent, slow,
    garbled or gone; a source asks only while it is called. Implementers may rely on: `poll` is
    called from one thread, `acknowledge` perhaps from another one, while a `poll` waits.
    """

    @property
    def name(self) -> str:
        """What its notices have as `source`."""
        ...

    @property
    def interval(self) -> float:
        """Seconds between two polls that its provider recommends.

        0 only if `poll` waits for news itself, and never returns None.
        """
        ...

    def probe(self) -> bool:
        """Return whether it is there: this host is the provider's, or the command can be run."""
        ...

    def poll(self, patience: float) -> tuple[Notice, ...] | None:
        """Return all notices that stand now, or None if that cannot be known at the moment.

        A source that learns of news at once may wait for some up to `patience` seconds. What is
        missing from an answer has been called off; None says nothing either way.
        """
        ...

    def acknowledge(self, notice: Notice) -> None:
        """Tell the provider that nothing on this host needs the time that is left.

        Only to be called when every job of this host is stored, and verified to be.
        """
        ...
