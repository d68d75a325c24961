"""The same for many, a few at a time."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
R = TypeVar("R")


def each(workers: int, action: Callable[[A], R], items: Iterable[A]) -> list[R]:
    """Return what comes of each, in order; after a failure or Ctrl-C no other is begun."""
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(action, it) for it in items]
        try:
            return [future.result() for future in futures]
        finally:
            pool.shutdown(cancel_futures=True)
