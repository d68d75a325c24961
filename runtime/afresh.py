"""Starts of a job that has a past, anew or from its files, that somebody wants."""

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from spotrun.runtime.paths import Paths


@contextmanager
def wanted(paths: Paths, names: Sequence[str]) -> Iterator[None]:
    """Have the shim let these jobs start meanwhile; a mark counts as long as this process lives."""
    with ExitStack() as held:
        for mark in [paths.afresh / name for name in names]:
            held.callback(mark.unlink, missing_ok=True)
            fcntl.flock(held.enter_context(mark.open("w")), fcntl.LOCK_EX)
        yield
