"""How the contract tests run a behaviour on a lab host."""

from collections.abc import Callable
from typing import Any

from tests.conftest import Hosts
from tests.lab.images import name


def run_on_host(hosts: Hosts, behaviour: Callable[..., Any]) -> None:
    """Boot a host and run one behaviour there; LabError has its traceback."""
    (host,) = hosts(1)
    suite = behaviour.__module__.rpartition(".")[2]
    driver = ["/opt/spotrun/venv/bin/python", "-m", "tests.contract.on_host"]
    host.run([*driver, suite, behaviour.__name__, name("busybox")])
