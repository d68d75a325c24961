"""Fixtures: lab hosts for tests with the marker `lab`."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.lab.cgroups import Layout
from tests.lab.host import Host
from tests.lab.images import Image
from tests.lab.lab import Lab

Hosts = Callable[..., list[Host]]
_FIXTURES = {"lab", "hosts", "pair"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test that uses the lab and lacks its marker."""
    for item in items:
        used = _FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if used and not item.get_closest_marker("lab"):
            raise pytest.UsageError(f"{item.nodeid} uses {min(used)} without the marker `lab`")


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Give an empty lab that is gone after the test."""
    yield from _lab()


@pytest.fixture
def hosts(lab: Lab) -> Hosts:
    """Give a function that boots hosts: `hosts(2)`, `hosts(1, images=())`."""

    def start(
        count: int, *, images: tuple[Image, ...] = ("busybox",), layout: Layout = "v2"
    ) -> list[Host]:
        return lab.start(count, images=images, layout=layout)

    return start


@pytest.fixture(scope="session")
def pair() -> Iterator[tuple[Host, Host]]:
    """Give the two hosts that all tests share which clean up after themselves."""
    for opened in _lab():
        first, second = opened.start(2)
        yield first, second


def _lab() -> Iterator[Lab]:
    if os.geteuid() != 0:
        if "CI" in os.environ:
            pytest.fail("the lab needs root, and CI must not skip it")
        pytest.skip("the lab needs root")
    with Lab() as opened:
        yield opened
