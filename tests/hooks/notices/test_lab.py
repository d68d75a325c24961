"""The sources as they are, on hosts where each provider's metadata service is at its address."""

import pytest

from tests.conftest import Hosts
from tests.hooks.notices.on_host import ADDRESSES

pytestmark = [pytest.mark.lab, pytest.mark.slow]

_NAMES = {"gcp": "metadata.google.internal", "tencent": "metadata.tencentyun.com"}
_NOBODY = "iptables -A OUTPUT -o eth0 -j DROP"
"""Who is asked does not even refuse."""
_ON_HOST = ["/opt/spotrun/venv/bin/python", "-m", "tests.hooks.notices.on_host"]
_PROXY = {"http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"}


def test_every_provider_is_heard_at_its_real_address(hosts: Hosts) -> None:
    """And all that a source promises holds there; where there is none, nobody is bothered."""
    scripts = {name: _provide(name) for name in ADDRESSES} | {"none": _NOBODY}
    running = {}
    for host, (name, script) in zip(hosts(len(scripts), images=()), scripts.items(), strict=True):
        host.run(["sh", "-ec", script])
        running[name] = host.popen([*_ON_HOST, name], env=_PROXY)
    told = {name: process.communicate(timeout=300) for name, process in running.items()}
    failed = {name: told[name] for name, process in running.items() if process.returncode}
    assert not failed, "\n".join(f"{name}: {out}{error}" for name, (out, error) in failed.items())


def _provide(name: str) -> str:
    address = ADDRESSES[name]
    known = f"\necho {address} {_NAMES[name]} >>/etc/hosts" if name in _NAMES else ""
    return f"ip addr add {address}/32 dev lo{known}"
