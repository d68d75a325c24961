"""What the programs that run on a lab host tell, as JSON on stdout."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec


@dataclass(slots=True)
class Told:
    """One operation in a process of its own; sizes in bytes."""

    seconds: float = 0
    peak: int = 0
    """Most memory that the process has had, its libraries included."""
    count: int = 0
    """Snapshots, or bytes sent: what the operation counts."""


@contextmanager
def timed() -> Iterator[Told]:
    """Give what is to be told; its time is that of the block."""
    told, start = Told(), time.monotonic()
    yield told
    told.seconds = time.monotonic() - start
    told.peak = _peak()


def tell(found: object) -> None:
    """Write it for who has started this process."""
    sys.stdout.buffer.write(msgspec.json.encode(found))


def _peak() -> int:
    """Read it from proc(5): what getrusage(2) tells begins with the peak of the parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
