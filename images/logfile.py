"""A container's log file in the format of Kubernetes, which Podman keeps.

A line reads `2026-12-01T10:00:00.000000000+00:00 stdout F text`; `P` in place of `F` means that
the output's line goes on in the next one.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final


@dataclass(frozen=True, slots=True)
class LogLine:
    """A piece of a container's output."""

    stream: str
    """`stdout` or `stderr`."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Which part of a container's output is wanted, and how."""

    since: datetime | None = None
    until: datetime | None = None
    tail: int | None = None
    """How many lines from the end; None: all."""
    timestamps: bool = False
    """Whether each line begins with its time."""

    @property
    def query(self) -> dict[str, str]:
        """What to ask the engines for; their APIs have the same names for it."""
        times = {"since": self.since, "until": self.until}
        asked = {name: f"{time.timestamp():.6f}" for name, time in times.items() if time}
        tail = "all" if self.tail is None else str(self.tail)
        return {**asked, "tail": tail, "timestamps": str(self.timestamps).lower()}


WHOLE: Final = Excerpt()


def parse(lines: Iterable[bytes], part: Excerpt = WHOLE) -> Iterator[LogLine]:
    """Yield the output that a log file holds; a line that is cut off is left out."""
    split = (line.split(b" ", 3) for line in lines if line.endswith(b"\n"))
    pieces = (_Piece(*fields) for fields in split if len(fields) == len(_Piece.__match_args__))
    wanted = _whole_lines(piece for piece in pieces if piece.within(part))
    if part.tail is not None:
        wanted = iter(deque(wanted, maxlen=part.tail))
    for line in wanted:
        for at, piece in enumerate(line):
            stamp = piece.time + b" " if part.timestamps and at == 0 else b""
            yield LogLine(piece.stream.decode(), stamp + piece.said)


@dataclass(frozen=True, slots=True)
class _Piece:
    time: bytes
    stream: bytes
    tag: bytes
    text: bytes

    @property
    def partial(self) -> bool:
        return self.tag == b"P"

    @property
    def said(self) -> bytes:
        return self.text[:-1] if self.partial else self.text

    def within(self, part: Excerpt) -> bool:
        if part.since is part.until is None:
            return True
        time = datetime.fromisoformat(self.time.decode())
        return not (part.since and time < part.since) and not (part.until and time > part.until)


def _whole_lines(pieces: Iterable[_Piece]) -> Iterator[list[_Piece]]:
    """Yield the pieces of each line of output; the last one may have no end yet."""
    line: list[_Piece] = []
    for piece in pieces:
        line.append(piece)
        if not piece.partial:
            yield line
            line = []
    if line:
        yield line
