"""A push that begins while a dump is still being written, and ends when all files are there."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from pathlib import Path

from spotrun.images import cuts, growing
from spotrun.images.cuts import Span
from spotrun.images.push import Source
from spotrun.images.recipe import Content


class Ahead:
    """It runs in the background; whoever has begun it must finish it or give it up."""

    def __init__(
        self, push: Callable[[Source], Content], folder: Path, place: str, expected: int
    ) -> None:
        """Begin with the page files of the dump in `folder/place`, of so many bytes."""
        self._folder = folder
        self._place = place
        self._written = threading.Event()
        self._stopped = threading.Event()
        self._sizes: Future[dict[str, int]] = Future()
        source = Source(folder, self._spans(), self._sizes.result, expected)
        pool = ThreadPoolExecutor(1)
        self._result = pool.submit(push, source)
        pool.shutdown(wait=False)

    def written(self) -> None:
        """Take note that the dump has been written to its end."""
        self._written.set()

    def finish(self, sizes: dict[str, int]) -> Content:
        """Push the other files too, given the sizes of all; return or raise what the push does."""
        self._sizes.set_result(sizes)
        try:
            return self._result.result()
        except BaseException:
            self.give_up()
            raise

    def stop(self) -> None:
        """Let it end soon; do not wait."""
        self._stopped.set()
        self._written.set()
        self._sizes.cancel()

    def give_up(self) -> None:
        """Stop it, and wait until nothing of it goes on."""
        self.stop()
        wait([self._result])

    def _spans(self) -> Iterator[Span]:
        """Yield the parts of the page files, then those of all other files."""
        taken = set()
        for span in growing.spans(self._folder, self._place, self._written.is_set):
            taken.add(span.path)
            yield self._unless_stopped(span)
        for span in cuts.spans(self._folder, sorted(self._sizes.result().keys() - taken)):
            yield self._unless_stopped(span)

    def _unless_stopped(self, span: Span) -> Span:
        if self._stopped.is_set():
            raise CancelledError
        return span
