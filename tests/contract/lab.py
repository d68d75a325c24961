"""How the contract tests run a behaviour on a lab host."""

from collections.abc import Callable
from typing import Any

from tests.conftest import Hosts
from tests.lab.host import Host
from tests.lab.images import name

_CLEAN_UP = """
docker ps --all --quiet | xargs --no-run-if-empty docker rm --force --volumes
docker volume ls --quiet | xargs --no-run-if-empty docker volume rm
"""


def run_on_host(hosts: Hosts, behaviour: Callable[..., Any]) -> None:
    """Boot a host and run one behaviour on its Podman; LabError has its traceback."""
    (host,) = hosts(1)
    _run(host, behaviour)


def run_on_docker(host: Host, behaviour: Callable[..., Any]) -> None:
    """Run one behaviour on a Docker that others use after it."""
    try:
        _run(host, behaviour)
    finally:
        host.run(["sh", "-ec", _CLEAN_UP])


def _run(host: Host, behaviour: Callable[..., Any]) -> None:
    suite = behaviour.__module__.rpartition(".")[2]
    driver = ["/opt/spotrun/venv/bin/python", "-m", "tests.contract.on_host", host.engine]
    host.run([*driver, suite, behaviour.__name__, name("busybox")])
