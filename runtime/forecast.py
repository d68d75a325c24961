"""Whether a last snapshot can be stored before this host goes, told by what earlier ones took.

It counts from the notice to the last byte in the store. It is to be too long rather than too short:
what is cut off is worth nothing.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from spotrun.images.manifest import Kind, Manifest

USUAL: Final = 120.0
"""Seconds of notice for which it is told, unless the job's user says how many there will be."""
_LAST: Final = 5
"""Snapshots to look at. If they differ by chance, one in six takes longer than the five before."""
_SPREAD: Final = 1.25
"""What is set aside for that one."""
_SLACK: Final = 3.0
"""Seconds for what no manifest can tell, its own way into the store and that of the lease, and for
deadlines, which are good to one."""
_LITTLE: Final = 64 << 20
"""Bytes of memory that make no difference to a dump: less of them is not faster."""
_LOOKED_AT: Final = 400e6
"""Bytes a second that are hashed and looked up, by two processors that are busy."""

# Of a job of which nothing is known: no byte is in the store, and none can be compressed.
_BEGUN: Final = 5.0
"""Seconds to look it over and to freeze it: a fraction of one if it has few processes."""
_WRITTEN: Final = 100e6
"""Bytes a second to the disk: the volumes that clouds give by default do 125 MiB."""
_SENT: Final = 25e6
"""Bytes a second to the store: a fifth of a line of one gigabit."""
_FILES: Final = 1 << 30
"""Bytes of changed files."""

_COPY: Final = "copy changed files"
_STORE: Final = "store"
_BEFORE: Final = {"preflight", "prepare", "freeze", _COPY}
_MEMORY: Final = {"suspend GPU", "dump processes"}
"""Phases of a capture (capture.py) as manifests name them."""


class Plan(StrEnum):
    """What is to be done when this host goes."""

    LIVE = "live"
    """Stop the job and store all of it."""
    FILES = "files"
    """Stop it and store its files only."""
    KEEP = "keep"
    """Store nothing: the last snapshot counts."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """How long a last snapshot would take, from the notice to the last byte in the store."""

    seconds: float
    """With processes."""
    files_seconds: float
    """Of files only."""
    basis: int
    """So many earlier snapshots tell; 0: it is a guess."""


def forecast(manifests: Iterable[Manifest], memory: int, rate: float | None = None) -> Forecast:
    """Foretell the last snapshot of a job that has so many bytes of memory now.

    `manifests` are those of the job, oldest first. `memory` is best counted as a dump does, without
    what is in files as well. `rate` is the bytes a second that go to the store, if that has been
    measured; else those times count in which earlier snapshots were stored.
    """
    told = [it for it in manifests if any(phase.name == _STORE for phase in it.phases)]
    # The very first one has to send everything, and tells only where there is no other.
    last = ([it for it in told if it.parent] or told)[-_LAST:]
    live = [it for it in last if it.kind is Kind.LIVE]
    # What a job has on its GPU is in its dumps, but not in its memory before.
    memory = max(memory, live[-1].memory_bytes if live else 0)
    sent = rate or _SENT
    files = max(
        (_Past.of(it).files(rate) for it in last),
        default=_BEGUN + _FILES / _WRITTEN + _FILES / sent,
    )
    seconds = max(
        (_Past.of(it).live(memory, rate) for it in live),
        default=files + memory / _WRITTEN + memory / sent,
    )
    return Forecast(max(seconds, files), files, len(last))


def choose(forecast: Forecast, left: float) -> Plan:
    """Choose the best that is done for sure when so many seconds have gone by.

    A guess is no reason to give a job up that has no snapshot: its changed files, of which nothing
    is known, are hoped to be few then, and what is known of its memory decides.
    """
    if fits(forecast, left):
        return Plan.LIVE
    if not forecast.basis:
        hoped = _BEGUN + forecast.seconds - forecast.files_seconds
        return Plan.LIVE if needed(hoped) <= left else Plan.FILES
    return Plan.FILES if needed(forecast.files_seconds) <= left else Plan.KEEP


def fits(forecast: Forecast, left: float) -> bool:
    """Tell whether all of it is stored for sure in so many seconds."""
    return needed(forecast.seconds) <= left


def sentence(forecast: Forecast, left: float) -> str:
    """Say it to people; the seconds are those that `choose` wants to have."""
    plan, files = choose(forecast, left), needed(forecast.files_seconds)
    word = "yes" if fits(forecast, left) else "might" if plan is Plan.LIVE else "no"
    verdict = f"{word}, {needed(forecast.seconds)} s"
    if plan is Plan.FILES:
        verdict += f"; files only {'would' if files <= left else 'might'}, {files} s"
    elif plan is Plan.KEEP:
        verdict += "; nothing fits; the last snapshot counts"
    guess = "" if forecast.basis else "; a guess, until there is a snapshot"
    return f"fits in {max(0, math.floor(left))} s: {verdict}{guess}"


def needed(seconds: float) -> int:
    """Return the seconds that must be left for what is foretold to take so many."""
    return math.ceil(seconds * _SPREAD + _SLACK)


@dataclass(frozen=True, slots=True)
class _Past:
    """What an earlier snapshot took."""

    before: float
    """Seconds of what files need, but for the store and what is copied beside the dump."""
    copying: float
    """Seconds of that."""
    dump: float
    """Seconds of memory, the GPU's included."""
    store: float
    sent: int
    """Bytes that were new to the store, compressed."""
    copied: int
    """Bytes of files."""
    bytes: int
    """All."""
    memory: int

    @classmethod
    def of(cls, it: Manifest) -> Self:
        """Read a manifest."""
        phases = {phase.name: phase for phase in it.phases}
        store, copy = phases[_STORE], phases.get(_COPY)
        return cls(
            before=sum(it.seconds for name, it in phases.items() if name in _BEFORE),
            copying=it.copying,
            dump=sum(it.seconds for name, it in phases.items() if name in _MEMORY),
            store=store.seconds,
            sent=store.bytes,
            copied=copy.bytes if copy else 0,
            bytes=it.bytes,
            memory=it.memory_bytes,
        )

    def files(self, rate: float | None) -> float:
        """Return the seconds for the files alone."""
        return self.before + self.copying + self._files_store(rate)

    def live(self, memory: int, rate: float | None) -> float:
        """Return the seconds for all, with so much memory in the place of what there was."""
        grown = 1 + (memory - self.memory) / max(self.memory, _LITTLE)
        store = max(grown * self._store(rate), self._files_store(rate))
        return self.before + grown * self.dump + store

    def _store(self, rate: float | None) -> float:
        """Return its seconds, or at that rate: then the earlier ones may have been throttled."""
        if not rate:
            return self.store
        return self.sent / rate + min(self.store, self.bytes / _LOOKED_AT)

    def _files_store(self, rate: float | None) -> float:
        """Return the share of the files, of which all may have been new."""
        return self._store(rate) * min(1.0, self.copied / max(1, self.sent))
