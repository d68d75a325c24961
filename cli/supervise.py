"""`spotrun supervise JOB`: what looks after a job; not for people."""

import signal
from datetime import UTC, datetime

import click

from spotrun.cli.opened import opened
from spotrun.cli.output import Output
from spotrun.cli.result import Result
from spotrun.hooks.notices.signals import heeded
from spotrun.images.errors import JobBusy
from spotrun.runtime import processes, supervising, systemd
from spotrun.runtime.guard import guard
from spotrun.runtime.host import this_host


class _Diary(Output):
    """What is said, with the time when."""

    def note(self, text: str) -> None:
        """Write a line into the log."""
        super().note(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z {text}")


@click.command("supervise")
@click.argument("job")
def command(job: str) -> Result | None:
    """Look after JOB as long as this host has it."""
    host, told = this_host(), _Diary(json=False)

    def supervise() -> int:
        from spotrun.runtime import supervisor

        with heeded(signal.SIGTERM) as heard:
            return supervisor.supervise(opened(told), job, heard, told)

    try:
        with supervising.serving(host.paths, job):
            if not systemd.is_service():
                processes.leave_cgroups()
            return Result(None, exit_code=guard(host, job, supervise))
    except JobBusy:  # somebody was faster
        return None
