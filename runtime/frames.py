"""The frames in which engines send a container's output (Docker's API, "Attach to a container")."""

from collections.abc import Iterator
from typing import BinaryIO, Final

from spotrun.images.logfile import LogLine

_HEADER: Final = 8
_STREAMS: Final = {0: "stdin", 1: "stdout", 2: "stderr"}


def frames(source: BinaryIO) -> Iterator[LogLine]:
    """Yield what comes; each frame has the number of its stream and, in bytes 4 to 7, its size."""
    while len(header := source.read(_HEADER)) == _HEADER:
        yield LogLine(_STREAMS[header[0]], source.read(int.from_bytes(header[4:])))
