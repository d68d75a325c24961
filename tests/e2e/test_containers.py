"""Containers of all kinds go on as if nothing had been."""

import pytest

from tests.conftest import Hosts
from tests.e2e.jobs import await_lines, lines, spotrun
from tests.lab.host import Engine
from tests.lab.images import name

pytestmark = pytest.mark.lab

_COUNT = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.2; done"
_KINDS: dict[str, tuple[tuple[str, ...], str]] = {
    "init-rm": (("--init", "--rm"), ""),
    "restart-health": (("--restart=always", "--health-cmd=true", "--health-interval=1s"), ""),
    "read-only": (("--read-only", "--tmpfs=/t:size=8m", "--network=none"), "echo kept > /t/x;"),
    "published-port": (("--publish=8080:80",), "(while :; do nc -l -p 80; done) &"),
    "odd.rights_1": (("--cap-drop=ALL", "--security-opt=no-new-privileges"), ""),
    "privileged": (("--privileged",), ""),
    "terminal": (("-it",), ""),
    "stdin": (("-i",), ""),
    "volumes": (("-v", "named:/named", "-v", "/unnamed"), "echo kept | tee /named/x /unnamed/x;"),
    "deleted": ((), "exec 5> /made; rm /made; mkdir /gone; cd /gone; rmdir /gone;"),
    "removed": ((), "exec 5< /data/1; rm /data/1;"),
    "renamed": ((), "exec 5> /dev/shm/a; ln /dev/shm/a /dev/shm/b; rm /dev/shm/a;"),
    "processes": (
        (),
        (
            "sleep 1000 & kill -STOP $!; sh -c 'sleep 0.1 & exec sleep 1000' & nc -lk local:/made &"
            " for _ in $(seq 100); do sleep 1000 & done;"
        ),
    ),
}


def test_container_of_any_kind_goes_on(hosts: Hosts, engine: Engine) -> None:
    """It is saved, ended, restored, and counts on from where it was."""
    (host,) = hosts(1, engine=engine)
    for kind, (options, before) in _KINDS.items():
        words = ("sh", "-c", f"{before} {_COUNT}")
        host.run(["spotrun", "run", "-d", "--name", kind, *options, name("busybox"), *words])
    for kind in _KINDS:
        await_lines(host, kind, 3)
        spotrun(host, "checkpoint", kind)
        saved = len(lines(host, kind))
        spotrun(host, "restore", kind)
        await_lines(host, kind, saved + 3)
        numbers = [int(line) for line in lines(host, kind) if line.strip().isdigit()]
        assert numbers == list(range(len(numbers))), kind
