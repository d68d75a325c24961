"""A container's log file in the format of Kubernetes, which Podman keeps.

A line reads `2026-12-01T10:00:00.000000000+00:00 stdout F text`; `P` in place of `F` means that
the output's line goes on in the next one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogLine:
    """A piece of a container's output."""

    stream: str
    """`stdout` or `stderr`."""
    data: bytes


def parse(lines: Iterable[bytes]) -> Iterator[LogLine]:
    """Yield the output that a log file holds; a line that is cut off is left out."""
    for line in lines:
        fields = line.split(b" ", 3)
        if len(fields) == 4 and line.endswith(b"\n"):  # noqa: PLR2004 # time, stream, tag, text
            _, stream, tag, text = fields
            yield LogLine(stream.decode(), text[:-1] if tag == b"P" else text)
