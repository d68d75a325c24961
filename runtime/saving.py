"""A snapshot of a running job that is made by a process of its own, which can be stopped."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import Final

from spotrun.images.care import Care
from spotrun.runtime import locks, settle, standing, supervising
from spotrun.runtime.host import Host
from spotrun.runtime.paths import Paths
from spotrun.runtime.processes import parent
from spotrun.runtime.transaction import Observer

_TAKEN_BACK: Final = 5.0
"""Seconds in which one that is stopped is taken back, or else it is killed."""
_STEP: Final = 0.05


def cut_off(paths: Paths, job: str) -> None:
    """Have one taken back that the job's supervisor has begun: its user wants more of the job.

    Not so the last one, on a notice, which the supervisor makes itself.
    """
    said, pid = standing.read(paths, job), locks.holder(paths.locks, job)
    if said and pid and parent(pid) == said.pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


class Saving:
    """Makes one at a time."""

    def __init__(self, host: Host, job: str, done: Callable[[int], None]) -> None:
        """Call `done`, from a thread, with the exit code of each."""
        self._host, self._job, self._done = host, job, done
        self._pid: int | None = None

    @property
    def busy(self) -> bool:
        """Tell whether one is being made."""
        return self._pid is not None

    def begin(self, care: Care) -> None:
        """Begin one."""
        argv = [*supervising.myself(), "checkpoint", "--leave-running"]
        argv += [f"--upload-limit={care.upload_limit}"] if care.upload_limit else []
        log = self._host.paths.supervisor_log(self._job)
        pid = self._pid = self._host.runner.spawn([*argv, self._job], log=log)

        def await_it() -> None:
            _, status = os.waitpid(pid, 0)
            self._pid = None
            self._done(os.waitstatus_to_exitcode(status))

        threading.Thread(target=await_it, name="saving", daemon=True).start()

    def stop(self, observer: Observer, host: Host) -> None:
        """Have it taken back, by this host: there is something better to do."""
        if self._pid is None:
            return
        end = monotonic() + _TAKEN_BACK
        self._send(signal.SIGTERM)
        while self.busy:
            if monotonic() > end:  # it hangs at its store; what it has begun is settled below
                self._send(signal.SIGKILL)
            sleep(_STEP)
        settle.settle(host, observer)

    def _send(self, number: signal.Signals) -> None:
        pid = self._pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
