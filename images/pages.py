"""Where CRIU's memory pages belong: the page maps beside its `pages-N.img` files.

`pagemap.proto` of CRIU has the fields.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from spotrun.images.protobuf import after_head, messages, numbers

PAGE: Final = 4096
_MAGIC: Final = 0x56084025
_PAGES_ID: Final = 1
_VADDR, _NR_PAGES, _IN_PARENT, _FLAGS, _NR_PAGES_64 = 1, 2, 3, 4, 5
_PRESENT: Final = 1 << 2

Run = tuple[int, int]
"""Virtual address of pages that follow each other, and how many bytes they are."""


class PageMap:
    """One page map, which may still be growing."""

    def __init__(self, path: Path) -> None:
        """Read that file, from its begin on."""
        self.pages: str | None = None
        """Name of the page file; None: the map does not say it yet."""
        self._path = path
        self._taken = 0
        """Bytes of the file that have been made sense of."""

    def more(self) -> list[Run]:
        """Return the runs that have been written since, or raise ValueError or LookupError."""
        with self._path.open("rb") as file:
            file.seek(self._taken)
            raw = file.read()
        at, runs = 0 if self._taken else after_head(raw, _MAGIC), []
        for message, end in messages(raw, at):
            fields, at = numbers(message), end
            if self.pages is None:
                self.pages = f"pages-{fields[_PAGES_ID]}.img"
            elif _is_present(fields):
                pages = fields.get(_NR_PAGES_64) or fields[_NR_PAGES]
                runs.append((fields[_VADDR], pages * PAGE))
        self._taken += at if self.pages else 0
        return runs

    @property
    def whole(self) -> bool:
        """Tell whether all of the file makes sense, now that it does not grow any more."""
        return self.pages is not None and self._taken == self._path.stat().st_size


def page_runs(folder: Path) -> dict[str, list[Run]]:
    """Return, for the page files of a dump, the runs of pages in the order of the file.

    A file whose page map cannot be read, or does not account for each of its bytes, is left out.
    """
    found: dict[str, list[Run]] = {}
    for path in sorted(folder.glob("pagemap-*.img")):
        page_map = PageMap(path)
        with suppress(ValueError, LookupError):
            runs = page_map.more()
            if page_map.pages is None or not page_map.whole:
                continue
            pages = folder / page_map.pages
            if pages.is_file() and pages.stat().st_size == sum(length for _, length in runs):
                found[pages.name] = runs
    return found


def _is_present(fields: Mapping[int, int]) -> bool:
    """Tell whether the pages are in the page file, in old and new CRIU's way."""
    return bool(fields.get(_FLAGS, 0 if fields.get(_IN_PARENT) else _PRESENT) & _PRESENT)
