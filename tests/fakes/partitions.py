"""Hosts with clocks of their own and a store that they reach over a bad network."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from spotrun.images.backends.base import ObjectChanged, ObjectExists, ObjectMissing
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.errors import StoreUnavailable
from tests.fakes.turns import Passing

T = TypeVar("T")
Visit = Callable[[], object]


class Crash(BaseException):
    """The process that made a request is no more."""


class Fate(StrEnum):
    """What becomes of a request."""

    ANSWERED = "answered"
    LOST = "lost"
    UNHEARD = "unheard"
    """It is done, and its answer gets lost."""
    LATE = "late"
    """Its sender has given up before it is done, if it ever is."""
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"


@dataclass(frozen=True)
class Passage:
    """A request's way to the store and back."""

    fate: Fate = Fate.ANSWERED
    before: Visit = lambda: None
    """What happens while it is on its way."""
    after: Visit = lambda: None
    """What happens while its answer is."""


@dataclass
class World:
    """The store, time as it is, and the requests that may be done yet."""

    store: MemoryBackend = field(default_factory=MemoryBackend)
    seconds: float = 0.0
    late: list[Callable[[], object]] = field(default_factory=list)

    def land(self, number: int) -> None:
        """Do a late request, the answer to which nobody hears."""
        try:
            self.late.pop(number)()
        except (ObjectChanged, ObjectExists, ObjectMissing):
            return


class Network(Passing):
    """The backend as one host reaches it: each request goes the next passage, if there is one."""

    def __init__(self, world: World) -> None:
        """Let all requests be answered."""
        super().__init__(world.store)
        self.passages: deque[Passage] = deque()
        self.cut = False
        self._world = world

    def meanwhile(self, passages: Iterable[Passage]) -> "Meanwhile":
        """Return a context in which requests go these passages."""
        return Meanwhile(self, deque(passages))

    def _passed(self, request: Callable[[], T]) -> T:
        passage = self.passages.popleft() if self.passages else Passage()
        passage.before()
        if passage.fate is Fate.CRASH_BEFORE:
            raise Crash
        if passage.fate is Fate.LATE:
            self._world.late.append(request)
        if self.cut or passage.fate in {Fate.LATE, Fate.LOST}:
            raise StoreUnavailable(store=self, reason="it cannot be reached")
        try:
            return request()
        finally:  # a refusal is an answer, too
            self._answer(passage)

    def _answer(self, passage: Passage) -> None:
        passage.after()
        if passage.fate is Fate.CRASH_AFTER:
            raise Crash
        if passage.fate is Fate.UNHEARD:
            raise StoreUnavailable(store=self, reason="its answer got lost")


@dataclass
class Meanwhile:
    """Has requests go passages, and others again when it ends."""

    network: Network
    passages: deque[Passage]

    def __enter__(self) -> None:
        """Begin."""
        self._swap()

    def __exit__(self, *_: object) -> None:
        """End."""
        self._swap()

    def _swap(self) -> None:
        self.network.passages, self.passages = self.passages, self.network.passages
