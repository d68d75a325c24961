"""`spotrun logs`: a job's output over its whole life."""

import click

from spotrun.cli.common import format_option, open_host, output
from spotrun.runtime import listing


@click.command("logs")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="go on until the job ends")
@format_option
def command(job: str, *, follow: bool) -> None:
    """Show what JOB wrote, on this host and before it came here.

    With --format json each piece is a line: {"stream", "text"}.
    """
    told = output()
    for line in listing.logs(open_host(), job, follow=follow):
        told.log(line)
