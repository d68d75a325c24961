"""Notices by a signal: how service managers, schedulers and some clouds tell a process to end."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

from spotrun.hooks.notices.notice import Kind, NothingToAcknowledge, Notice


class Signals(NothingToAcknowledge):
    """Tells of the first signal that `receive` was called for."""

    name: Final = "signal"
    interval: Final = 0.0

    def __init__(self, grace: float | None = None) -> None:
        """Expect that the process is killed `grace` seconds after the signal, if that is known."""
        self._grace = grace
        self._arrived: SimpleQueue[tuple[signal.Signals, float]] = SimpleQueue()
        self._notice: Notice | None = None

    def receive(self, number: int, _: FrameType | None) -> None:
        """Handle a signal."""
        # of all ways to wake a thread the only one that is safe in a handler (queue.SimpleQueue)
        self._arrived.put((signal.Signals(number), time.monotonic()))

    def probe(self) -> bool:
        """Say yes: there are always signals."""
        return True

    def poll(self, patience: float) -> tuple[Notice, ...] | None:
        """Wait for the signal; once it came it stands."""
        try:
            number, when = self._arrived.get(timeout=patience)
        except Empty:
            return (self._notice,) if self._notice else ()
        if self._notice is None:
            self._notice = Notice(
                self.name,
                Kind.SHUTDOWN,
                event="signal",
                words=number.name,
                order=True,
                deadline=None if self._grace is None else when + self._grace,
            )
        return (self._notice,)


@contextmanager
def heeded(*numbers: signal.Signals, grace: float | None = None) -> Iterator[Signals]:
    """Take these signals for notices while it is open; only in the main thread."""
    source = Signals(grace)
    before = {number: signal.signal(number, source.receive) for number in numbers}
    try:
        yield source
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
