"""Listening to all sources at once: which are there, what is new, what was called off."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Self

from spotrun.hooks.notices.notice import Notice, NoticeSource

_PROBE: Final = 1.5
"""Seconds in which a source that is there says so."""
_HANG: Final = 10.0
"""Seconds that one poll may wait for news."""
_LONGEST: Final = 10.0
"""Seconds between two polls of a source in trouble, at most: some notices come with 30."""
_SOONER: Final = 5.0
"""Seconds by which a deadline must move to be news."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A notice that was called off."""

    notice: Notice


News = Notice | Withdrawn


def probe_all(sources: Iterable[NoticeSource], within: float = _PROBE) -> list[NoticeSource]:
    """Return the sources that are there, asked all at once, in their order.

    One that has not answered in so many seconds is taken for missing. That is for clouds; a command
    that the user has named may take longer.
    """
    asked = list(sources)
    there: SimpleQueue[tuple[NoticeSource, bool]] = SimpleQueue()

    def probe(source: NoticeSource) -> None:
        there.put((source, source.probe()))

    for source in asked:
        _start(probe, source)
    answers: dict[int, bool] = {}
    deadline = time.monotonic() + within
    while len(answers) < len(asked):
        try:
            source, here = there.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            break
        answers[id(source)] = here
    return [it for it in asked if answers.get(id(it))]


class Standing:
    """The notices of one source that stand."""

    def __init__(self) -> None:
        """Begin with none."""
        self._notices: dict[str, Notice] = {}

    def update(self, notices: Iterable[Notice]) -> list[News]:
        """Return what is news, in what stands now.

        A notice is news once, and again whenever its deadline comes closer.
        """
        now = {it.event: it for it in notices}
        gone = [Withdrawn(it) for event, it in self._notices.items() if event not in now]
        news = [it for event, it in now.items() if _is_news(it, self._notices.get(event))]
        kept = {event: it for event, it in self._notices.items() if event in now}
        self._notices = kept | {it.event: it for it in news}
        return [*gone, *news]


class Watcher:
    """Polls sources, each in a thread of its own, from `__enter__` to `__exit__`.

    Threads that wait for a reply at the end are left to it: they are daemons and say nothing more.
    """

    def __init__(self, sources: Sequence[NoticeSource]) -> None:
        """Listen to these; with none there is no thread and no traffic."""
        self._sources = sources
        self._news: SimpleQueue[News | None] = SimpleQueue()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        """Start to listen."""
        for source in self._sources:
            _start(self._listen, source)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Listen no more."""
        self.stop()

    def stop(self) -> None:
        """Listen no more and let `wait` return at once; any thread may call this."""
        self._ended.set()
        self._news.put(None)

    def wait(self, timeout: float | None = None) -> News | None:
        """Return the next news, or None after so many seconds without, or once it was stopped."""
        if self._ended.is_set():
            return None
        try:
            return self._news.get(timeout=timeout)
        except Empty:
            return None

    def acknowledge(self, notice: Notice) -> None:
        """Pass it on to the source of the notice (NoticeSource.acknowledge)."""
        for source in self._sources:
            if source.name == notice.source:
                source.acknowledge(notice)

    def _listen(self, source: NoticeSource) -> None:
        standing, pause = Standing(), source.interval
        while not self._ended.is_set():
            notices = source.poll(_HANG)
            if notices is None:
                pause = min(2 * pause, max(_LONGEST, source.interval))
            else:
                pause = source.interval
                for news in standing.update(notices):
                    self._news.put(news)
            self._ended.wait(pause)


def _is_news(notice: Notice, before: Notice | None) -> bool:
    if before is None:
        return True
    if notice.deadline is None:
        return False
    return before.deadline is None or notice.deadline < before.deadline - _SOONER


def _start(work: Callable[[NoticeSource], None], source: NoticeSource) -> None:
    threading.Thread(target=work, args=(source,), name=source.name, daemon=True).start()
