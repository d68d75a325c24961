"""`spotrun status`: how well the jobs of this host are looked after."""

from pathlib import Path

import click

from spotrun.cli.common import format_option, open_host, seconds, untended
from spotrun.cli.completion import job_names
from spotrun.cli.output import table
from spotrun.cli.result import Result
from spotrun.runtime import forecast, supervising
from spotrun.runtime.standing import Standing


@click.command("status")
@click.argument("names", metavar="[JOB…]", nargs=-1, shell_complete=job_names)
@click.option(
    "--in",
    "left",
    metavar="TIME",
    default="120s",
    callback=seconds,
    help="of what notice to tell; 120s",
)
@format_option
def command(names: tuple[str, ...], left: float) -> Result:
    """Tell when each JOB is saved next, and whether there is time for that when this host goes."""
    host, rows = open_host(), []
    shown = table("JOB", "EPOCH", "SNAPSHOT", "NEXT (UTC)", "A LAST SNAPSHOT")
    for row in supervising.rows(host, names):
        said = row.standing
        fits = forecast.sentence(said.forecast, left) if said else ""
        log = host.paths.supervisor_log(row.job)
        cells = (_due(said), _outlook(said, fits, log)) if said else ("", "it is being brought up")
        shown.add_row(row.job, str(row.epoch), row.snapshot or "", *cells)
        rows.append({"job": row.job, "standing": said, "fits": fits})
    untended(host, names)
    return Result(rows, shown)


def _due(said: Standing) -> str:
    return "now" if said.saving else said.next[:19].replace("T", " ")


def _outlook(said: Standing, fits: str, log: Path) -> str:
    failed = f"; but the last one that was tried has failed: {log}" if said.failed else ""
    leaving = f"; a notice stands: {said.leaving}" if said.leaving else ""
    return f"{fits}{failed}{leaving}"
