"""`spotrun ps`: the jobs of this host, running or not."""

import click

from spotrun.cli.common import format_option, open_host
from spotrun.cli.output import table
from spotrun.cli.result import Result
from spotrun.runtime import listing


@click.command("ps")
@click.option("-a", "--all", "every", is_flag=True, help="also jobs that have moved away")
@format_option
def command(*, every: bool) -> Result:
    """List the jobs of this host."""
    rows = listing.jobs_here(open_host(), every=every)
    shown = table("JOB", "STATUS", "IMAGE", "EPOCH", "SNAPSHOT", "CONTAINER")
    for row in rows:
        container = (row.container or "")[:12]
        shown.add_row(row.job, row.status, row.image, str(row.epoch), row.snapshot, container)
    return Result(rows, shown)
