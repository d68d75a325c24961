"""What proves that a job is well after a restore, beside being alive.

`tcp:PORT`: something in it listens there. `log:REGEX`: it says so on a line. `healthcheck`: its own
holds. Anything else is a command that ends with 0 inside.
"""

import re
import sys
from collections.abc import Callable
from datetime import datetime
from time import monotonic, sleep
from typing import Final

from spotrun.images.errors import UsageError
from spotrun.images.logfile import Excerpt
from spotrun.runtime.engine import Container
from spotrun.runtime.host import Host

_PATIENCE: Final = 60.0
"""Seconds in which it must hold."""
_PAUSE: Final = 0.5
_TIMEOUT: Final = 10.0
_CONNECT: Final = (
    "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2).close()"
)
_HEALTH: Final = "{{.State.Health.Status}}"

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
    if probe == "healthcheck":
        return lambda host, container, _: _is_healthy(host, container)
    return lambda host, container, _: _ends_well(host, container, probe)


def holds(host: Host, container: Container, probe: str, since: datetime) -> bool:
    """Wait until a probe of what was restored then holds; False: it does not in a minute."""
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
    argv = [host.engine.name, "inspect", f"--format={_HEALTH}", container.id]
    return host.runner.run(argv).stdout.strip() == "healthy"


def _ends_well(host: Host, container: Container, command: str) -> bool:
    return _runs(host, [host.engine.name, "exec", container.id, "sh", "-c", command])


def _runs(host: Host, argv: list[str]) -> bool:
    try:
        return host.runner.run(argv, timeout=_TIMEOUT).status == 0
    except TimeoutError:
        return False
