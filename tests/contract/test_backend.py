"""Every backend keeps the contract of `Backend`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from spotrun.images.backends import open_backend
from spotrun.images.backends.base import Backend
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.backends.objects import ObjectBackend
from spotrun.images.patience import Patience
from tests.contract import backend_suite
from tests.contract.suites import behaviours
from tests.fakes.seaweed import Bucket

_ALL = behaviours(backend_suite)
_ENGINE = [it for it in _ALL if it is not backend_suite.range_is_read_exactly]
"""obstore's store in memory has words of its own for a range beyond the end."""
_EACH = pytest.mark.parametrize("behaviour", _ALL, ids=lambda it: it.__name__)


@_EACH
def test_memory(behaviour: Callable[[Backend], None]) -> None:
    """What other tests run on behaves as a real store does."""
    behaviour(MemoryBackend())


@_EACH
def test_directory(behaviour: Callable[[Backend], None], tmp_path: Path) -> None:
    """A directory does."""
    behaviour(open_backend(f"file://{tmp_path}/not/there/yet"))


@pytest.mark.parametrize("behaviour", _ENGINE, ids=lambda it: it.__name__)
def test_engine_of_object_stores(behaviour: Callable[[Backend], None]) -> None:
    """The engine does, on obstore's own store in memory."""
    behaviour(ObjectBackend(MemoryStore(), "memory", patience=Patience()))


@pytest.mark.s3
@_EACH
def test_s3(behaviour: Callable[[Backend], None], bucket: Bucket) -> None:
    """An S3 server does."""
    behaviour(open_backend(bucket.url()))
