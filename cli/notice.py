"""`spotrun notice`: somebody knows that this host will go."""

import click

from spotrun.cli.common import format_option, open_host, output, seconds, untended
from spotrun.cli.completion import job_names
from spotrun.cli.result import Result
from spotrun.hooks.notices import file
from spotrun.images.errors import UsageError
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
@click.option("--off", is_flag=True, help="it will stay: call an earlier notice off")
@format_option
def command(names: tuple[str, ...], *, left: float | None, off: bool) -> Result:
    """Tell that this host will go, for each JOB or all that are looked after.

    Their supervisors save them as well as there is time for, and let them go: exit code 85. One
    that leaves more than five minutes can be called off.
    """
    if off and left is not None:
        raise UsageError(message="--off and --in: a notice is given or called off")
    host = open_host()
    told = supervising.tended(host.paths, names)
    for name in told:
        place = host.paths.notices / name
        if off:
            file.call_off(place)
        else:
            file.give(place, left, why="spotrun notice")
    alone = untended(host, names)
    if not told and not alone:
        output().note("no job is looked after on this host")
    return Result({"told": list(told)}, "\n".join(told) or None)
