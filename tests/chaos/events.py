"""What befalls a job and its hosts: drawn from a seed, the same seed always gives the same."""

import random
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """One sort of misfortune, where the job is."""

    NOTICE = "the host is about to go"
    RUN = "SIGKILL of `spotrun run`"
    SAVING = "SIGKILL of a snapshot that is being made"
    CONTAINER = "SIGKILL of the container"
    SUPERVISOR = "SIGKILL of the supervisor"
    GUARD = "SIGKILL of the guard"
    ALL = "SIGKILL of all of spotrun; its command is run again at once"
    POWER = "the power goes off"
    NETWORK = "the network is cut"
    STORE = "the store is down"


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    kind: Kind
    after: float
    """Seconds since the one before."""
    lasts: float
    """Seconds, if it is of a kind that lasts; the next ones come meanwhile."""
    chance: float
    """From 0 to 1: decides what the kind leaves open."""


def drawn(seed: int, count: int) -> list[Event]:
    """Return so many events: like cards, each kind comes once before any comes again."""
    source = random.Random(seed)
    deck: list[Kind] = []
    events = []
    for _ in range(count):
        deck = deck or source.sample(list(Kind), len(Kind))
        after, lasts = source.uniform(0.5, 5.0), source.uniform(1.0, 10.0)
        events.append(Event(deck.pop(), after, lasts, source.random()))
    return events
