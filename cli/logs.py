"""`spotrun logs`: a job's output over its whole life."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import click

from spotrun.cli.common import format_option, open_host, output
from spotrun.cli.completion import job_names
from spotrun.images.logfile import Excerpt
from spotrun.runtime import listing

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_DURATION: Final = re.compile(r"(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h)")
_INSTANT: Final = "2026-12-24T18:30:00Z, or how long ago: 1h30m"


def _instant(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """Read a time as `docker logs` does; without a zone it is this host's."""
    if value is None:
        return None
    if re.fullmatch(f"(?:{_DURATION.pattern})+", value):
        ago = sum(float(count) * _UNITS[unit] for count, unit in _DURATION.findall(value))
        return datetime.now(UTC) - timedelta(seconds=ago)
    try:
        if re.fullmatch(r"\d{9,}(\.\d*)?", value):
            return datetime.fromtimestamp(float(value), UTC)
        return datetime.fromisoformat(value).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{value!r} is no time like {_INSTANT}") from None


def _lines(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """Read a number of lines; less than none is no limit."""
    if value in {None, "all"}:
        return None
    try:
        count = int(str(value))
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor 'all'") from None
    return count if count >= 0 else None


@click.command("logs")
@click.argument("job", shell_complete=job_names)
@click.option("-f", "--follow", is_flag=True, help="go on until the job ends")
@click.option("--since", callback=_instant, metavar="TIME", help=f"only from {_INSTANT}")
@click.option("--until", callback=_instant, metavar="TIME", help="only up to then")
@click.option("-n", "--tail", callback=_lines, metavar="N", help="only the last N lines; or all")
@click.option("-t", "--timestamps", is_flag=True, help="put its time before each line")
@format_option
def command(
    job: str,
    *,
    follow: bool,
    since: datetime | None,
    until: datetime | None,
    tail: int | None,
    timestamps: bool,
) -> None:
    """Show what JOB wrote, on this host and before it came here.

    With --format json each piece is a line: {"stream", "text"}.
    """
    told = output()
    part = Excerpt(since, until, tail, timestamps)
    for line in listing.logs(open_host(), job, follow=follow, part=part):
        told.log(line)
