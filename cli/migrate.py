"""`spotrun migrate`: a running job moves to another host."""

from dataclasses import replace

import click

from spotrun.cli.common import format_option, open_host, output
from spotrun.cli.completion import job_names
from spotrun.cli.output import timeline
from spotrun.cli.result import Result
from spotrun.runtime import migrate


@click.command("migrate")
@click.argument("job", shell_complete=job_names)
@click.option("--to", "target", required=True, metavar="ssh://USER@HOST", help="where to")
@format_option
def command(job: str, target: str) -> Result:
    """Move JOB to another host, which needs nothing but spotrun and ssh.

    It goes on here if anything fails.
    """
    state = migrate.migrate(open_host(), job, target=target, observer=output())
    there = [replace(phase, name=f"there: {phase.name}") for phase in state.there]
    output().note(f"job {job!r} runs on {target}")
    data = {
        "job": job,
        "snapshot": state.snapshot,
        "target": target,
        "phases": state.records,
        "phases_there": state.there,
    }
    return Result(data, timeline([*state.records, *there], total=state.records))
