"""On a host with systemd, who looks after a job is a service."""

from typing import Final

import pytest

from tests.conftest import Hosts
from tests.e2e.s3 import served
from tests.e2e.spot import COUNT, ENVIRONMENT, Spot, kinds, output, snapshots, until
from tests.lab.host import Host

pytestmark = pytest.mark.lab

_VALUE: Final = 'of "nobody\'s" \\ $BUSINESS\nbut `ours`'


@pytest.fixture
def host(hosts: Hosts) -> Host:
    """Give one whose init is systemd."""
    (found,) = hosts(1, systemd=True)
    return found


def test_supervisor_is_a_service_that_is_begun_again_when_it_is_killed(host: Host) -> None:
    """With its guard at the same time; one whose guard alone is killed takes its place."""
    with served(host) as store:
        Spot(store, "busybox", COUNT, "--every=2s").run(host)
        until(lambda: len(snapshots(host, store)) >= 1)
        (unit,) = _services(host)
        main = _property(host, unit, "MainPID")
        host.run(["pkill", "-KILL", "-f", "supervise train"])
        until(lambda: _property(host, unit, "MainPID") not in {"0", main})
        _goes_on(host, store)
        host.run(["kill", "-KILL", _property(host, unit, "MainPID")])
        _goes_on(host, store)
        assert kinds(host, store) == ["started fresh"]


def test_stop_of_the_service_is_a_notice(host: Host) -> None:
    """As at a shutdown, which stops it before the engines."""
    with served(host) as store:
        Spot(store).run(host)
        until(lambda: len(output(host)) > 5)
        (unit,) = _services(host)
        assert "docker.service" in _property(host, unit, "After")
        host.run(["systemctl", "stop", unit])
        until(lambda: kinds(host, store) == ["started fresh", "notice", "stopped"])
        assert len(snapshots(host, store)) == 1
        assert not _services(host)
        assert not list(host.path("/run/spotrun/environments").iterdir())


def test_supervisor_has_the_variables_of_the_command_and_nobody_can_ask_for_them(
    host: Host,
) -> None:
    """There are keys of stores among them."""
    with served(host) as store:
        argv = Spot(store).line
        host.run(argv, env={**ENVIRONMENT, "SECRET": _VALUE, "NOTIFY_SOCKET": "/nowhere"})
        (unit,) = _services(host)
        main = _property(host, unit, "MainPID")
        environ = host.path(f"/proc/{main}/environ").read_text().split("\0")
        assert f"SECRET={_VALUE}" in environ
        assert not [it for it in environ if it.startswith("NOTIFY_SOCKET")]
        assert "BUSINESS" not in host.run(["systemctl", "show", unit]).stdout


def _goes_on(host: Host, store: str) -> None:
    """Wait until the job is saved once more."""
    made = len(snapshots(host, store))
    until(lambda: len(snapshots(host, store)) > made)


def _services(host: Host) -> list[str]:
    """Return the services that look after jobs."""
    asked = ["systemctl", "list-units", "--plain", "--no-legend", "spotrun-*.service"]
    return [line.split()[0] for line in host.run(asked).stdout.splitlines()]


def _property(host: Host, unit: str, name: str) -> str:
    return host.run(["systemctl", "show", f"--property={name}", "--value", unit]).stdout.strip()
