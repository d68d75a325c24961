"""Packs that leave some of the line to others."""

import threading
from time import monotonic, sleep

from spotrun.images.backends.base import Data, Packs, Piece, pieces


class Throttled:
    """The packs of a store, sent at so many bytes a second on the average (base.Packs).

    Each goes at full speed, and the next one waits until its time has come.
    """

    def __init__(self, packs: Packs, rate: int) -> None:
        """Send no more than `rate` bytes a second."""
        self._packs, self._rate = packs, rate
        self._next = 0.0
        self._lock = threading.Lock()

    def read(self, key: str, offset: int, length: int) -> Piece:
        """Read without waiting."""
        return self._packs.read(key, offset, length)

    def put(self, key: str, data: Data) -> None:
        """Wait for those before it, and send it."""
        with self._lock:
            begin = max(monotonic(), self._next)
            self._next = begin + sum(len(piece) for piece in pieces(data)) / self._rate
        sleep(max(0.0, begin - monotonic()))
        self._packs.put(key, data)
