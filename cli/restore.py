"""`spotrun restore`: a stored job goes on."""

import click

from spotrun.cli.common import format_option, open_host, output, store_option
from spotrun.cli.completion import job_names
from spotrun.cli.output import timeline
from spotrun.cli.result import Result
from spotrun.images.address import Address
from spotrun.runtime import engines, restore


@click.command("restore")
@click.argument("job", shell_complete=job_names)
@click.option("--snapshot", metavar="ID", help="which one; default: the newest")
@click.option("--name", help="go on under another name")
@click.option(
    "--engine",
    type=click.Choice(engines.NAMES),
    help="on which; default: the one it was on here",
)
@store_option
@format_option
def command(
    job: str, snapshot: str | None, name: str | None, store: Address | None, engine: str | None
) -> Result:
    """Let JOB go on here from a snapshot, which may be of the other engine."""
    state = restore.restore(
        open_host(),
        job,
        snapshot=snapshot,
        name=name,
        store=store,
        engine=engine,
        observer=output(),
    )
    data = {"job": state.job, "snapshot": state.snapshot, "container": state.container}
    output().note(f"job {state.job!r} goes on from {state.snapshot}")
    return Result({**data, "phases": state.records}, timeline(state.records))
