"""Work that needs no taking back: steps that are told as the phases of a transaction are."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from spotrun.images.manifest import PhaseRecord
from spotrun.images.store import Tell
from spotrun.runtime import scratch
from spotrun.runtime.host import Host
from spotrun.runtime.transaction import Observer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one verb."""

    host: Host
    observer: Observer
    records: list[PhaseRecord] = field(default_factory=list)
    """Those that are done."""

    def do(self, name: str, act: Callable[[], T], moved: Callable[[T], int] = lambda _: 0) -> T:
        """Do one and tell of it; `moved` says how many bytes it has moved."""
        start = self._begin(name)
        done = act()
        self._end(name, start, moved(done))
        return done

    @contextmanager
    def step(self, name: str) -> Iterator[Tell]:
        """Tell of one that is done inside; yield who is told how far it has come."""
        start = self._begin(name)
        yield self.observer.progress
        self._end(name, start)

    def _begin(self, name: str) -> float:
        self.observer.begin(name)
        return self.host.clock.monotonic()

    def _end(self, name: str, start: float, moved: int = 0) -> None:
        record = PhaseRecord(name, round(self.host.clock.monotonic() - start, 4), moved)
        self.records.append(record)
        self.observer.end(record)


@contextmanager
def room(host: Host, name: str, *, images: int) -> Iterator[tuple[Path, Path]]:
    """Yield a folder for a snapshot's files and one for what else is needed, gone at the end."""
    unique = f"{name}-{secrets.token_hex(4)}"
    other = scratch.place(host.paths, f"{unique}-more")
    with scratch.held(host.paths, unique), scratch.held(host.paths, other.name):
        yield scratch.make(host.paths, unique, images=images, memory=images), other
