"""The guard of a job: it freezes the job in time, and has its supervisor begin again after a crash.

It does little, and nothing that can block for long, so that it is there when the supervisor is not:
that one may wait for a store for minutes, or be killed. Neither survives the other for long: the
supervisor becomes a guard, with a supervisor of its own, when it finds itself alone.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import sleep
from types import FrameType
from typing import Final

from spotrun.hooks.notices import file
from spotrun.images.errors import ExitCode, JobBusy
from spotrun.runtime import fence, locks, standing
from spotrun.runtime.host import Host

_LOOK: Final = 0.2
"""Seconds between two looks at the fence."""
_PAUSE: Final = 2.0
"""Seconds before a supervisor that has crashed begins again."""
CRASHED: Final = 70
"""Exit code of a supervisor that is to begin again (EX_SOFTWARE); so is any other way to end."""
_ENDS: Final = (ExitCode.OK, ExitCode.PREEMPTED)


def guard(host: Host, job: str, supervise: Callable[[], int]) -> int:
    """Have the job looked after, to the end of that, and return its exit code."""
    watch, current = _Watch(host, job), _Current(host.paths.notices / job)
    before = signal.signal(signal.SIGTERM, current.pass_on)
    try:
        while True:
            current.child = _fork(supervise, watch)
            status = _wait(current.child, watch)
            current.child = None
            if status in _ENDS:
                return status
            for _ in range(int(_PAUSE / _LOOK)):
                watch.look()
                sleep(_LOOK)
    finally:
        signal.signal(signal.SIGTERM, before)


class _Current:
    """The supervisor of the moment, if there is one."""

    def __init__(self, notice: Path) -> None:
        self.child: int | None = None
        self._notice = notice

    def pass_on(self, number: int, _: FrameType | None) -> None:
        """Pass a signal on, which is a notice, or leave that for the next supervisor."""
        if self.child is None:
            file.give(self._notice, why=signal.Signals(number).name)
            return
        with suppress(ProcessLookupError):
            os.kill(self.child, number)


class _Watch:
    """Freezes the job at its end, and thaws what it has frozen when that is put off."""

    def __init__(self, host: Host, job: str) -> None:
        self._host, self._job = host, job
        self._there: tuple[Host, str] | None = None
        """The job's container with its engine, as far as they are known."""

    def look(self) -> None:
        """Do what the time asks for; what fails, whatever that is, is tried at the next look."""
        with suppress(Exception):
            self._see()
        with suppress(Exception):
            if fence.left(self._host.paths, self._job) <= 0:
                self._freeze()
            elif fence.marked(self._host.paths, self._job):
                self._thaw()

    def _freeze(self) -> None:
        """Freeze it whatever else is being done with it, and whoever thaws it."""
        there = self._found()
        if there is None:
            return
        host, container = there
        if host.oci.status(container) == "running":
            with suppress(OSError):  # without room for it the job is frozen all the same
                fence.mark(host.paths, self._job)  # first: who is killed here has it thawed later
            host.oci.freeze(container)

    def _thaw(self) -> None:
        """Thaw it unless somebody works on it, who would not expect that.

        What is not frozen any more, or has gone, is nobody's business.
        """
        paths, now = self._host.paths, self._host.clock.now()
        there = self._found()
        if there is None or there[0].oci.status(there[1]) != "paused":
            fence.unmark(paths, self._job)
            return
        with suppress(JobBusy), locks.hold(paths.locks, self._job, "thaw", now, wait=False):
            there[0].oci.thaw(there[1])
            fence.unmark(paths, self._job)

    def _see(self) -> None:
        """Note what the supervisor has seen, as long as it can be told."""
        said = standing.read(self._host.paths, self._job)
        if said and said.container:
            self._there = self._host.of(self._job), said.container

    def _found(self) -> tuple[Host, str] | None:
        """Return what is known, as long as that is there."""
        if self._there is None or self._there[0].oci.status(self._there[1]) is None:
            self._there = self._asked()
        return self._there

    def _asked(self) -> tuple[Host, str] | None:
        """Ask the engine, which may be silent for long."""
        host = self._host.of(self._job)
        found = host.job_container(self._job)
        return (host, found.id) if found else None


def _fork(supervise: Callable[[], int], watch: _Watch) -> int:
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        status = CRASHED
        try:
            threading.Thread(target=_stand_in, args=(guard, watch), daemon=True).start()
            status = supervise()
        except BaseException:  # noqa: BLE001 # it ends here whatever it is
            with suppress(Exception):  # the log may be full
                traceback.print_exc()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
    return child


def _stand_in(guard: int, watch: _Watch) -> None:
    """Look in the place of a guard that was killed: its supervisor may be waiting for a store."""
    while True:
        if os.getppid() != guard:
            watch.look()
        sleep(_LOOK)


def _wait(child: int, watch: _Watch) -> int:
    """Return the child's exit status, negative if a signal has ended it."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        watch.look()
        sleep(_LOOK)
