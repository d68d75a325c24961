"""Runs the real sources on a lab host against a cloud that is served at its real addresses.

`python -m tests.hooks.notices.on_host aws`; it needs no pytest, which lab hosts do not have.
"""

import re
import subprocess
import sys
import time

from spotrun.hooks.notices.clouds import clouds
from spotrun.hooks.notices.notice import Notice, NoticeSource
from spotrun.hooks.notices.watch import News, Watcher, Withdrawn, probe_all
from tests.contract.suites import behaviours
from tests.fakes.metadata import AzureCloud, Service, Trouble
from tests.hooks.notices import suite
from tests.hooks.notices.stages import CLOUDS, SECONDS, staged

ADDRESSES = {
    "aws": "169.254.169.254",
    "gcp": "169.254.169.254",
    "azure": "169.254.169.254",
    "alibaba": "100.100.100.200",
    "tencent": "169.254.0.23",
}
"""Two have names as well, which the host must know."""
_SOON = 7
"""Seconds in which all have told their news, the slowest being asked every five."""


def main(name: str) -> None:
    """Raise what does not hold."""
    if name == "none":
        _none()
        return
    for behaviour in behaviours(suite):
        with _serve(name) as service:
            (source,) = _found(name)
            behaviour(staged(service, source))
    with _serve(name) as service, Watcher(_found(name)) as watcher:
        _play(service, watcher)


def _none() -> None:
    """Be where nobody answers, not even with a refusal."""
    started = time.monotonic()
    found = probe_all(clouds())
    assert found == []
    assert time.monotonic() - started < 2
    with Watcher(found) as watcher:
        watcher.wait(1)  # connections that were begun are given up
        before = _dropped()
        assert before
        watcher.wait(3)
        assert _dropped() == before


def _dropped() -> int:
    """Return how many packets have gone nowhere."""
    argv = ["iptables", "--list-rules", "OUTPUT", "--verbose"]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    found = re.search(r"-c (\d+) \d+ -j DROP", told)
    assert found, told
    return int(found[1])


def _play(service: Service, watcher: Watcher) -> None:
    assert watcher.wait(1.5) is None
    notice = _announced(service, watcher)
    assert watcher.wait(_SOON) is None
    watcher.acknowledge(notice)
    if isinstance(service.cloud, AzureCloud):
        assert service.cloud.started == [notice.event]
    service.cloud.withdraw()
    assert watcher.wait(_SOON + 10) == Withdrawn(notice)
    service.trouble = Trouble.SLOW
    assert watcher.wait(_SOON) is None
    service.trouble = None
    assert _announced(service, watcher, within=_SOON + 20).kind is notice.kind
    service.die()
    assert watcher.wait(_SOON) is None


def _announced(service: Service, watcher: Watcher, within: float = _SOON) -> Notice:
    started = time.monotonic()
    service.cloud.announce(SECONDS)
    news: News | None = watcher.wait(within)
    sys.stdout.write(f"after {time.monotonic() - started:.2f} s: {news}\n")
    assert isinstance(news, Notice)
    assert news.order
    return news


def _serve(name: str) -> Service:
    return Service(CLOUDS[name][0](), (ADDRESSES[name], 80))


def _found(name: str) -> list[NoticeSource]:
    found = probe_all(clouds())
    assert [it.name for it in found] == [name], found
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
