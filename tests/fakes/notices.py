"""A source of notices that says what a test writes down."""

import threading
from collections.abc import Iterable

from spotrun.hooks.notices.notice import Kind, Notice


def notice(event: str = "1", *, source: str = "scripted", deadline: float | None = None) -> Notice:
    """Return a notice of the kind that does not matter."""
    return Notice(source, Kind.PREEMPT, event, "go", order=True, deadline=deadline)


class ScriptedSource:
    """Has the notices that stand in `standing`; None is trouble."""

    def __init__(self, name: str = "scripted", *, here: bool = True) -> None:
        """Be there, or not."""
        self.name = name
        self.interval = 0.001
        self.here = here
        self.standing: tuple[Notice, ...] | None = ()
        self.polls = 0
        self.acknowledged: list[Notice] = []
        self.polled = threading.Condition()

    def probe(self) -> bool:
        """Say so."""
        return self.here

    def poll(self, patience: float) -> tuple[Notice, ...] | None:  # noqa: ARG002
        """Say what stands."""
        with self.polled:
            self.polls += 1
            self.polled.notify_all()
            return self.standing

    def acknowledge(self, notice: Notice) -> None:
        """Remember it."""
        self.acknowledged.append(notice)

    def say(self, notices: Iterable[Notice] | None) -> None:
        """Let these stand, and wait until they were read."""
        with self.polled:
            self.standing = None if notices is None else tuple(notices)
            self.wait(1)

    def wait(self, polls: int) -> None:
        """Wait until it was polled that often again."""
        with self.polled:
            goal = self.polls + polls
            assert self.polled.wait_for(lambda: self.polls >= goal, 5)
