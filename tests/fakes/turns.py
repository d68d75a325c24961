"""Several actors on one store: in turns that a random number generator gives, or one in another."""

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from random import Random
from typing import Final, TypeVar

from spotrun.images.backends.base import Backend, Data, Entry, Piece

T = TypeVar("T")
_MOST: Final = 40
"""Requests of one actor that follow each other, at most, before it may be anybody's turn."""


class Passing:
    """A backend that passes each request on to another one, by `_passed` (base.Backend)."""

    def __init__(self, inner: Backend) -> None:
        """Pass on to `inner`."""
        self._inner = inner

    def __str__(self) -> str:
        """Return what a user calls it."""
        return str(self._inner)

    def get(self, key: str) -> bytes:
        """Pass on."""
        return self._passed(lambda: self._inner.get(key))

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        """Pass on."""
        return self._passed(lambda: self._inner.get_tagged(key))

    def read(self, key: str, offset: int, length: int) -> Piece:
        """Pass on."""
        return self._passed(lambda: self._inner.read(key, offset, length))

    def put(self, key: str, data: Data) -> None:
        """Pass on."""
        self._passed(lambda: self._inner.put(key, data))

    def create(self, key: str, data: Data) -> str:
        """Pass on."""
        return self._passed(lambda: self._inner.create(key, data))

    def replace(self, key: str, data: Data, tag: str) -> str:
        """Pass on."""
        return self._passed(lambda: self._inner.replace(key, data, tag))

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Pass on, at once."""
        return self._passed(lambda: iter(list(self._inner.list(prefix))))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete in the order given, a request each."""
        for key in keys:
            self._passed(lambda: self._inner.delete([key]))  # noqa: B023 # called at once

    def free(self) -> int | None:
        """Pass on."""
        return self._inner.free()

    def _passed(self, request: Callable[[], T]) -> T:
        return request()


class Visited(Passing):
    """A backend on which something happens before the request of a certain number."""

    def __init__(self, inner: Backend, number: int, visit: Callable[[], object]) -> None:
        """Call `visit` before request `number`, the first one being 0."""
        super().__init__(inner)
        self.visited = False
        self._number = number
        self._visit = visit
        self._requests = count()

    def _passed(self, request: Callable[[], T]) -> T:
        if next(self._requests) == self._number:
            self.visited = True
            self._visit()
        return request()


class Turn(Passing):
    """The backend as one actor sees it: each request waits for its turn."""

    def __init__(self, inner: Backend, random: Random) -> None:
        """Pass on to `inner`."""
        super().__init__(inner)
        self.done = False
        self._random = random
        self._granted = self._waiting = 0
        self._changed = threading.Condition()

    def grant(self) -> None:
        """Let one request pass, unless the actor has come to its end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self.done)
            if not self.done:
                self._granted = 1
                self._changed.notify_all()
                self._changed.wait_for(lambda: not self._granted)

    def end(self) -> None:
        """Wait for nothing any more."""
        with self._changed:
            self.done = True
            self._changed.notify_all()

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Take two turns: what is written or deleted in between may be in the list or not."""
        begin = self._passed(lambda: set(self._inner.list(prefix)))
        end = self._passed(lambda: set(self._inner.list(prefix)))
        changed = {it for it in sorted(begin ^ end) if self._random.choice((True, False))}
        return iter(sorted({it.key: it for it in sorted(begin & end | changed)}.values()))

    def _passed(self, request: Callable[[], T]) -> T:
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._granted)
            self._granted -= 1
            self._waiting -= 1
            try:
                return request()
            finally:
                self._changed.notify_all()


def interleave(
    inner: Backend, random: Random, actors: Iterable[Callable[[Backend], object]]
) -> None:
    """Run all actors to their end, one request at a time, and raise what they raise."""
    failed: list[BaseException] = []

    def run(turn: Turn, actor: Callable[[Backend], object]) -> None:
        try:
            actor(turn)
        except BaseException as error:  # noqa: BLE001 # the caller gets it
            failed.append(error)
        finally:
            turn.end()

    turns = {Turn(inner, random): actor for actor in actors}
    threads = [threading.Thread(target=run, args=it) for it in turns.items()]
    for thread in threads:
        thread.start()
    alive = list(turns)
    while alive:
        turn = random.choice(alive)
        for _ in range(random.randint(1, _MOST)):
            turn.grant()
        alive = [it for it in alive if not it.done]
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
