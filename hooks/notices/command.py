"""Notices of a command that the user names: it ends with 0 when there is one."""

import time
from typing import Final

from spotrun.hooks.notices.notice import NothingToAcknowledge, Notice
from spotrun.hooks.notices.spoken import spoken
from spotrun.images.errors import ExitCode
from spotrun.images.process import Completed, Runner

_TIMEOUT: Final = 10.0
_CANNOT_RUN: Final = (ExitCode.CANNOT_INVOKE, ExitCode.NOT_FOUND)


class Command(NothingToAcknowledge):
    """Runs it through a shell every few seconds; its output may tell the seconds that are left."""

    name: Final = "command"
    interval: Final = 5.0

    def __init__(self, command: str, runner: Runner) -> None:
        """Listen to the shell command."""
        self._argv = ("sh", "-c", command)
        self._runner = runner

    def probe(self) -> bool:
        """Return whether it can be run."""
        done = self._run()
        return done is None or done.status not in _CANNOT_RUN

    def poll(self, patience: float) -> tuple[Notice, ...] | None:  # noqa: ARG002
        """Run it; None if it takes too long, cannot be run or is ended by a signal."""
        asked = time.monotonic()
        done = self._run()
        if done is None or done.status < 0 or done.status in _CANNOT_RUN:
            return None
        return () if done.status else (spoken(self.name, "command", done.stdout, asked),)

    def _run(self) -> Completed | None:
        try:
            return self._runner.run(self._argv, timeout=_TIMEOUT)
        except TimeoutError:
            return None
