"""What proves that a job is well after a restore: that it is alive, and what its user asks.

`tcp:PORT`: something in it listens there. `log:REGEX`: it says so on a line. `healthcheck`: its own
holds. Anything else is a command that ends with 0 inside.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from time import monotonic, sleep
from typing import Final

from spotrun.images.errors import UsageError
from spotrun.images.logfile import Excerpt
from spotrun.images.runspec import RunSpec
from spotrun.runtime import grammar
from spotrun.runtime.engine import Container
from spotrun.runtime.host import Host
from spotrun.runtime.processes import Thread, threads

_MOMENT: Final = 5.0
"""Seconds in which it must be seen to be alive: one that may run waits for a busy host, too."""
_GLANCE: Final = 0.02
_WAITING: Final = frozenset("SDTt")
"""States of a thread that waits in a system call, or was stopped, as it may have been saved."""
_DEAD: Final = frozenset("ZX")
_PATIENCE: Final = 60.0
"""Seconds in which it must hold."""
_PAUSE: Final = 0.5
_TIMEOUT: Final = 10.0
_CONNECT: Final = (
    "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2).close()"
)
_HEALTHCHECK: Final = "healthcheck"
_NO_CHECK: Final = "the container has no health check; name another probe, or give it --health-cmd"

Check = Callable[[Host, Container, datetime], bool]


def check(probe: str) -> Check:
    """Return what a probe asks; UsageError: it makes no sense."""
    kind, _, rest = probe.partition(":")
    if kind == "tcp":
        if not rest.isdecimal() or not 0 < int(rest) < 1 << 16:
            raise UsageError(message=f"--probe: {rest!r} is no port")
        return lambda host, container, _: _listens(host, container, rest)
    if kind == "log":
        try:
            pattern = re.compile(rest.encode())
        except re.error as error:
            raise UsageError(message=f"--probe: {rest!r} is no pattern: {error}") from None
        return lambda host, container, since: _says(host, container, since, pattern)
    if probe == _HEALTHCHECK:
        return lambda host, container, _: _is_healthy(host, container)
    return lambda host, container, _: _ends_well(host, container, probe)


def refuse(host: Host, spec: RunSpec, probe: str | None) -> None:
    """Raise UsageError if a health check is to hold, and the container will have none.

    Of an image that is not here yet nothing is known.
    """
    if probe != _HEALTHCHECK:
        return
    given = grammar.value(spec.options, "--health-cmd")
    none = given == "none" or grammar.flag(spec.options, "--no-healthcheck")
    if none or (given is None and _has_none(host, spec.image)):
        raise UsageError(message=f"--probe=healthcheck: {_NO_CHECK}")


def _has_none(host: Host, image: str) -> bool:
    """Tell whether an image is here and has no health check (Docker, Podman: `image inspect`)."""
    done = host.runner.run([host.engine.name, "image", "inspect", image])
    if done.status:
        return False
    found = json.loads(done.stdout)[0]
    check = found.get("Healthcheck") or (found.get("Config") or {}).get("Healthcheck") or {}
    return check.get("Test") in (None, [], ["NONE"])


def lives(host: Host, container: Container) -> bool:
    """Wait until a process of what was restored waits in a system call or is seen to have run.

    False: the first one is dead, or in a moment there was none that did.
    """
    seen: dict[int, int] = {}
    end = monotonic() + _MOMENT
    while monotonic() < end:
        first = threads(container.pid)
        if all(it.state in _DEAD for it in first.values()):
            return False
        if _is_busy(first, seen) or any(_is_busy(it, seen) for it in _others(host, container)):
            return True
        sleep(_GLANCE)
    return False


def _others(host: Host, container: Container) -> Iterator[dict[int, Thread]]:
    """Yield the threads of each process; most jobs are known to live by their first one."""
    return (threads(pid) for pid in host.oci.processes(container.id))


def _is_busy(found: dict[int, Thread], seen: dict[int, int]) -> bool:
    """Tell whether one waits, or could run and has used more CPU time than when first `seen`."""
    return any(
        it.state in _WAITING or (it.state == "R" and it.ticks > seen.setdefault(tid, it.ticks))
        for tid, it in found.items()
    )


def holds(host: Host, container: Container, probe: str, since: datetime) -> bool:
    """Wait until a probe of what was restored then holds; False: it does not in a minute.

    UsageError: it never could.
    """
    asked, end = check(probe), monotonic() + _PATIENCE
    while not asked(host, container, since):
        if monotonic() > end:
            return False
        sleep(_PAUSE)
    return True


def _listens(host: Host, container: Container, port: str) -> bool:
    connect = [sys.executable, "-IS", "-c", _CONNECT, port]
    return _runs(host, ["nsenter", f"--net=/proc/{container.pid}/ns/net", *connect])


def _says(host: Host, container: Container, since: datetime, pattern: re.Pattern[bytes]) -> bool:
    lines = host.engine.logs(container.id, follow=False, part=Excerpt(since=since))
    return any(pattern.search(line.data) for line in lines)


def _is_healthy(host: Host, container: Container) -> bool:
    healthy = host.engine.healthy(container.id)
    if healthy is None:
        raise UsageError(message=f"--probe=healthcheck: {_NO_CHECK}")
    return healthy


def _ends_well(host: Host, container: Container, command: str) -> bool:
    return _runs(host, [host.engine.name, "exec", container.id, "sh", "-c", command])


def _runs(host: Host, argv: list[str]) -> bool:
    try:
        return host.runner.run(argv, timeout=_TIMEOUT).status == 0
    except TimeoutError:
        return False
