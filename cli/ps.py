"""`spotrun ps`: the jobs of this host, running or not."""

import click

from spotrun.cli.common import format_option, open_host
from spotrun.cli.output import table
from spotrun.cli.result import Result
from spotrun.runtime import listing


@click.command("ps")
@click.option("-a", "--all", "every", is_flag=True, help="also jobs that have moved away")
@click.option("-q", "--quiet", is_flag=True, help="only their names")
@format_option
def command(*, every: bool, quiet: bool) -> Result:
    """List the jobs of this host."""
    rows = listing.jobs_here(open_host(), every=every)
    if quiet:
        return Result(rows, "\n".join(row.job for row in rows) or None)
    shown = table("JOB", "STATUS", "IMAGE", "EPOCH", "SNAPSHOT", "ENGINE", "CONTAINER")
    for row in rows:
        container = (row.container or "")[:12]
        names = (row.job, row.status, row.image, str(row.epoch), row.snapshot)
        shown.add_row(*names, row.engine, container)
    return Result(rows, shown)
