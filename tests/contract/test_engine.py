"""Every engine keeps the contract of `Engine`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from spotrun.runtime.engine import Engine
from tests.conftest import Hosts
from tests.contract import engine_suite
from tests.contract.lab import run_on_docker, run_on_host
from tests.contract.suites import behaviours
from tests.fakes.engine import FakeEngine
from tests.fakes.oci import FakeOci
from tests.lab.host import Host

_IMAGE = "localhost/lab/busybox:1"
_EACH = pytest.mark.parametrize("behaviour", behaviours(engine_suite), ids=lambda it: it.__name__)


@_EACH
def test_engine_in_memory(behaviour: Callable[[Engine, str], None], tmp_path: Path) -> None:
    """What other tests run on behaves as a real engine does."""
    engine = FakeEngine(tmp_path, FakeOci(), engine_suite.PROGRAMS)
    engine.add_image(_IMAGE, b"layer")
    behaviour(engine, _IMAGE)


@pytest.mark.lab
@_EACH
def test_podman(behaviour: Callable[[Engine, str], None], hosts: Hosts) -> None:
    """Podman of a host does."""
    run_on_host(hosts, behaviour)


@pytest.mark.lab
@_EACH
def test_docker(behaviour: Callable[[Engine, str], None], docker_host: Host) -> None:
    """Docker does, which keeps images and overlays itself."""
    run_on_docker(docker_host, behaviour)


@pytest.mark.lab
@_EACH
def test_docker_on_containerd(
    behaviour: Callable[[Engine, str], None], containerd_host: Host
) -> None:
    """So does one that leaves both to containerd."""
    run_on_docker(containerd_host, behaviour)
