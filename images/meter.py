"""How far long work has come."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

_INTERVAL: Final = 0.2
"""Seconds between two reports."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One look at work on bytes."""

    done: int
    total: int
    moved: int
    """Bytes that had to be transferred for it: neither known already nor compressed away."""
    seconds: float
    given: int = 0
    """Bytes of `done` for which there was nothing to do from the begin on: they took no time."""

    @property
    def rate(self) -> float:
        """Bytes a second, from the begin on."""
        return (self.done - self.given) / self.seconds if self.seconds else 0.0

    @property
    def left(self) -> float | None:
        """Seconds until the end at this rate; None: it cannot be told yet."""
        return (self.total - self.done) / self.rate if self.rate else None


class Meter:
    """Counts what several threads do, and tells one listener, not too often."""

    def __init__(self, total: int, tell: Callable[[Progress], None] | None = None) -> None:
        """Start the clock; `total` is the bytes to do."""
        self._total = total
        self._tell = tell
        self._done = self._moved = 0
        self._start = time.monotonic()
        self._next = self._start + _INTERVAL
        self._lock = threading.Lock()

    def expect(self, total: int, tell: Callable[[Progress], None] | None) -> None:
        """Tell from now on, of so many bytes to do in all."""
        with self._lock:
            self._total, self._tell = total, tell

    @property
    def moved(self) -> int:
        """Bytes transferred so far."""
        return self._moved

    def add(self, *, done: int = 0, moved: int = 0) -> None:
        """Count, and tell if it is time."""
        with self._lock:
            self._done += done
            self._moved += moved
            now = time.monotonic()
            if self._tell and now >= self._next:
                self._next = now + _INTERVAL
                self._tell(Progress(self._done, self._total, self._moved, now - self._start))


@contextmanager
def often(act: Callable[[], None], seconds: float = _INTERVAL) -> Iterator[None]:
    """Do it again and again, in a thread of its own, as long as something else lasts."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(seconds):
            act()

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    try:
        yield
    finally:
        ended.set()
        worker.join()
