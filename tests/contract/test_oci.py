"""Every OCI runtime keeps the contract of `OciRuntime`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from spotrun.runtime.oci import OciRuntime
from tests.conftest import Hosts
from tests.contract import oci_suite
from tests.contract.lab import run_on_docker, run_on_host
from tests.contract.suites import behaviours
from tests.fakes.oci import FakeOci, Processes
from tests.lab.host import Host

_EACH = pytest.mark.parametrize("behaviour", behaviours(oci_suite), ids=lambda it: it.__name__)


@_EACH
def test_runtime_in_memory(
    behaviour: Callable[[OciRuntime, str, Path], None], tmp_path: Path
) -> None:
    """What other tests run on behaves as a real runtime does."""
    oci = FakeOci()
    oci.containers["it"] = Processes(pids=[1 << 29, (1 << 29) + 1])
    behaviour(oci, "it", tmp_path)


@pytest.mark.lab
@_EACH
def test_runc(behaviour: Callable[[OciRuntime, str, Path], None], hosts: Hosts) -> None:
    """Runc of a host does."""
    run_on_host(hosts, behaviour)


@pytest.mark.lab
@_EACH
def test_runc_under_docker(
    behaviour: Callable[[OciRuntime, str, Path], None], docker_host: Host
) -> None:
    """So it does with the containers of Docker."""
    run_on_docker(docker_host, behaviour)
