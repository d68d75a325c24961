"""Hosts with jobs that are looked after."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.living import Living, living
from tests.fakes.partitions import World


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Living]:
    """Give a host on which jobs can be saved, whose store is in memory, over a network."""
    with living(tmp_path / "host-a", monkeypatch, World()) as made:
        yield made
