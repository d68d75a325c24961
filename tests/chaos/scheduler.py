"""A scheduler such as Slurm: the same command line on some living host, until it ends with 0."""

import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from tests.e2e.spot import ENVIRONMENT
from tests.lab.host import Host

_GIVEN_UP: Final = 3.0
"""Seconds after which a host that does not answer is given up, and its run with it."""
_AGAIN: Final = 1.0
"""Seconds from one start to the next, at least."""
_LOG: Final = "/var/log/run"
_LOGGED: Final = f'exec "$@" >>{_LOG} 2>&1'


def spawn(host: Host, *argv: str) -> subprocess.Popen[str]:
    """Start a command whose output goes to a file of the host."""
    started = host.popen(["sh", "-c", _LOGGED, "logged", *argv], env=ENVIRONMENT)
    for pipe in (started.stdout, started.stderr):
        if pipe:
            pipe.close()
    return started


def said(host: Host) -> str:
    """Return what the commands have said that were started there."""
    with suppress(OSError):
        return host.path(_LOG).read_text()
    return ""


class Scheduler:
    """Has one run at a time."""

    def __init__(
        self,
        hosts: Sequence[Host],
        argv: Sequence[str],
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        """Nothing runs yet."""
        self.cut: dict[Host, float] = {}
        """Hosts that cannot be reached, and since when."""
        self.ended = False
        """Whether a run has ended with 0."""
        self.host: Host | None = None
        """Where the run is, or the last one was."""
        self._hosts, self._argv, self._say = hosts, argv, say
        self._random = random.Random(seed)
        self._run: subprocess.Popen[str] | None = None
        self._started = 0.0
        self._left: list[subprocess.Popen[str]] = []

    def tick(self) -> None:
        """See to it that a run is alive."""
        if self._run and not self._is_over(self._run):
            return
        living = [it for it in self._hosts if it.pid and it not in self.cut]
        if living and not self.ended and time.monotonic() > self._started + _AGAIN:
            self.start(self._random.choice(living))

    def start(self, host: Host) -> None:
        """Run the command line there, in the place of an earlier run."""
        self._leave(kill=True)
        self._say(f"the command line is run on {host.name}")
        self.host, self._run, self._started = host, spawn(host, *self._argv), time.monotonic()

    def signal(self, number: signal.Signals) -> None:
        """Send the run a signal, if there is one."""
        if self._run and self.host:
            with suppress(OSError):
                self.host.signal(self._run, number)

    def close(self) -> None:
        """End all runs."""
        self._leave()
        for run in self._left:
            run.kill()
            run.wait()

    def _is_over(self, run: subprocess.Popen[str]) -> bool:
        status = run.poll()
        assert self.host
        if status is None:
            since = self.cut.get(self.host)
            if since is None or time.monotonic() < since + _GIVEN_UP:
                return False
        self._say(f"the run on {self.host.name} is over: {status}")
        self.ended = status == 0
        self._leave()
        return True

    def _leave(self, *, kill: bool = False) -> None:
        """Have no run; one on a host that cannot be reached is left to itself."""
        if kill and self.host not in self.cut:
            self.signal(signal.SIGKILL)
        if self._run:
            self._left.append(self._run)
        self._run = None
