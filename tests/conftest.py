"""Fixtures: lab hosts for tests with the marker `lab`."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.lab.host import Host
from tests.lab.images import Image
from tests.lab.lab import Lab

Hosts = Callable[..., list[Host]]


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Give an empty lab that is gone after the test."""
    if os.geteuid() != 0:
        if "CI" in os.environ:
            pytest.fail("the lab needs root, and CI must not skip it")
        pytest.skip("the lab needs root")
    with Lab() as opened:
        yield opened


@pytest.fixture
def hosts(lab: Lab) -> Hosts:
    """Give a function that boots hosts: `hosts(2)`, `hosts(1, images=())`."""

    def start(
        count: int, *, images: tuple[Image, ...] = ("busybox",), layout: str = "v2"
    ) -> list[Host]:
        return lab.start(count, images=images, layout=layout)

    return start
