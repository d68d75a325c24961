"""`spotrun notice`: somebody knows that this host will go."""

import click

from spotrun.cli.common import format_option, open_host, output, seconds
from spotrun.cli.completion import job_names
from spotrun.cli.result import Result
from spotrun.hooks.notices import file
from spotrun.runtime import supervising


@click.command("notice")
@click.argument("names", metavar="[JOB…]", nargs=-1, shell_complete=job_names)
@click.option(
    "--in",
    "left",
    metavar="TIME",
    callback=seconds,
    help="how long it will be there, like 120s; 30s",
)
@format_option
def command(names: tuple[str, ...], left: float | None) -> Result:
    """Tell that this host will go, for each JOB or all that are looked after.

    Their supervisors save them as well as there is time for, and let them go: exit code 85.
    """
    host = open_host()
    told = supervising.tended(host.paths, names)
    for name in told:
        file.give(host.paths.notices / name, left, why="by hand")
    if not told:
        output().note("no job is looked after on this host")
    return Result({"told": list(told)}, "\n".join(told) or None)
