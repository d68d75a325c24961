"""`spotrun wait`: until jobs have ended."""

import click

from spotrun.cli.common import format_option, open_host, output
from spotrun.cli.completion import job_names
from spotrun.cli.result import Result
from spotrun.runtime import commands, jobs


@click.command("wait")
@click.argument("names", metavar="JOB…", nargs=-1, required=True, shell_complete=job_names)
@format_option
def command(names: tuple[str, ...]) -> Result:
    """Wait until each JOB has ended, and show its exit code: 85 if it has left this host."""
    host = open_host()
    codes = commands.wait(host, names)
    for name in names:
        if jobs.has_left(host.paths, name):
            output().note(str(jobs.absent(host.paths, name)))
    rows = [{"job": name, "exit_code": code} for name, code in zip(names, codes, strict=True)]
    return Result(rows, "\n".join(str(code) for code in codes))
