"""Holds: what tells those who delete that somebody reads or writes.

Who stores or restores a snapshot first makes a hold, then looks what the store has, and ends the
hold when nothing depends on it any more. Who deletes packs makes one, too, then looks for those of
others. So whatever the order, at least one of two sees the other. A hold counts for a day after it
was last written, by the store's own clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from spotrun.images.backends.base import Backend, ObjectMissing
from spotrun.images.pack import PackRef
from spotrun.images.seal import Broken, Seal, open_document, seal_document

PREFIX: Final = "holds/"
LIFE: Final = timedelta(days=1)


class Purpose(StrEnum):
    """What a hold is for."""

    PUSH = "push"
    LEFT = "left"
    """A push that was given up: in nobody's way; the next one of its job builds upon its packs."""
    PULL = "pull"
    PRUNE = "prune"


@dataclass(frozen=True, slots=True)
class Hold:
    """The content of a hold."""

    purpose: Purpose
    job: str
    """Empty: of no job."""
    host: str
    """For people: who made it."""
    packs: tuple[PackRef, ...] = ()
    """Those that a push has stored so far, for the next one to go on from."""


@dataclass(frozen=True, slots=True)
class Held:
    """A hold that is in the store."""

    id: str
    modified: datetime
    """By the store's clock."""


class Holds:
    """The holds of one store."""

    def __init__(self, backend: Backend, seal: Seal) -> None:
        """Read and write below `holds/`."""
        self._backend = backend
        self._seal = seal

    def write(self, hold_id: str, hold: Hold) -> None:
        """Make a hold, or change it and prolong its life; it has one writer."""
        key = PREFIX + hold_id
        self._backend.put(key, seal_document(self._seal, key, msgspec.json.encode(hold)))

    def read(self, hold_id: str) -> Hold | None:
        """Return a hold; None: it has ended, or makes no sense."""
        key = PREFIX + hold_id
        try:
            raw = open_document(self._seal, key, self._backend.get(key))
            return msgspec.json.decode(raw, type=Hold)
        except (ObjectMissing, Broken, msgspec.MsgspecError):
            return None

    def end(self, *hold_ids: str) -> None:
        """End holds; one that has ended already is as good."""
        self._backend.delete(PREFIX + it for it in hold_ids)

    def held(self) -> Iterator[Held]:
        """Yield all that are in the store, also those that count no longer."""
        for entry in self._backend.list(PREFIX):
            yield Held(entry.key.removeprefix(PREFIX), entry.modified)
