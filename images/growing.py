"""The page files of a dump, cut while CRIU still writes them.

CRIU appends to one page file after the other, in the order of their numbers, and notes in the page
map what it has written, some time later. What no map accounts for in the end is cut evenly.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from spotrun.images import cuts
from spotrun.images.cuts import Span
from spotrun.images.pages import PageMap, Run

_PAUSE: Final = 0.01
"""Seconds between two looks."""


def spans(folder: Path, place: str, written: Callable[[], bool]) -> Iterator[Span]:
    """Yield the parts of the page files in `folder/place` as soon as they can be cut.

    `written` tells whether the dump has been written to its end; until then this waits for more.
    """
    maps = _Maps(folder / place)
    for number in count(1):
        file = _File(folder / place, number, maps, written)
        if not file.is_there():
            return
        yield from cuts.grouped(f"{place}/{file.name}", file.lengths())


class _File:
    """One page file."""

    def __init__(
        self, folder: Path, number: int, maps: "_Maps", written: Callable[[], bool]
    ) -> None:
        self.name = f"pages-{number}.img"
        self._path = folder / self.name
        self._next = folder / f"pages-{number + 1}.img"
        self._maps = maps
        self._written = written
        self._cut = 0
        """Bytes of it that belong to the runs so far."""

    def is_there(self) -> bool:
        """Wait for it; it never comes if the dump has no more."""
        last = False
        while not last and not self._path.exists():
            last = self._written()
            time.sleep(_PAUSE)
        return self._path.exists()

    def lengths(self) -> Iterator[int]:
        """Yield the sizes of its chunks to its end."""
        yield from cuts.of_pages(self._runs())
        yield from cuts.of_units(self._path.stat().st_size - self._cut)

    def _runs(self) -> Iterator[Run]:
        """Yield what the page map and the file both have."""
        known: deque[Run] = deque()
        while True:
            last = self._written()  # asked first: what is read then is all there is
            known += self._maps.more(self.name)
            size = self._path.stat().st_size
            while known and self._cut + known[0][1] <= size:
                self._cut += known[0][1]
                yield known.popleft()
            if last or (self._cut == size and self._next.exists()):
                return
            time.sleep(_PAUSE)


class _Maps:
    """The page maps of a dump, as far as they are written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._maps: dict[Path, PageMap] = {}
        self._runs: dict[str | None, list[Run]] = defaultdict(list)

    def more(self, pages: str) -> list[Run]:
        """Return the runs of a page file that have been written since the last look."""
        for path in self._folder.glob("pagemap-*.img"):
            page_map = self._maps.setdefault(path, PageMap(path))
            if page_map.pages in {None, pages}:
                with suppress(ValueError, LookupError, OSError):
                    runs = page_map.more()
                    self._runs[page_map.pages] += runs
        return self._runs.pop(pages, [])
