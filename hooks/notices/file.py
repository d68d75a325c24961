"""Notices by a file that appears, which anybody who may write there can give."""

import time
from pathlib import Path
from typing import Final

from spotrun.hooks.notices.notice import FILE, NothingToAcknowledge, Notice
from spotrun.hooks.notices.spoken import ADVICE, spoken
from spotrun.images.durable import write_atomic


class File(NothingToAcknowledge):
    """Looks for it; its content may tell the seconds from when it was written."""

    name: Final = FILE
    interval: Final = 0.5

    def __init__(self, path: Path) -> None:
        """Look at that path."""
        self._path = path

    def probe(self) -> bool:
        """Say yes: it may appear any time."""
        return True

    def poll(self, patience: float) -> tuple[Notice, ...] | None:  # noqa: ARG002
        """Read it, if it is there; one that is written anew is another notice."""
        try:
            written = self._path.stat().st_mtime_ns
            text = self._path.read_text(errors="replace")
        except FileNotFoundError:
            return ()
        except OSError:
            return None
        age = max(0.0, (time.time_ns() - written) / 1e9)
        return (spoken(self.name, str(written), text, time.monotonic() - age),)


def give(path: Path, seconds: float | None = None, *, order: bool = True, why: str) -> None:
    """Give notice to whoever looks at that path, with the seconds from now if they are known."""
    words = ["" if order else ADVICE, "" if seconds is None else f"{seconds:g}s", why]
    write_atomic(path, " ".join(filter(None, words)).encode() + b"\n")


def call_off(path: Path) -> None:
    """Take back whatever notice was given there."""
    path.unlink(missing_ok=True)
