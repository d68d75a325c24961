"""`spotrun report`: a page about a job, to look at and to send round."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.text import Text

from spotrun.cli.common import format_option, open_host, output, store_option
from spotrun.cli.completion import job_names
from spotrun.cli.history import found, price_option
from spotrun.cli.result import Result
from spotrun.images import ledger
from spotrun.images.address import Address
from spotrun.images.durable import write_atomic
from spotrun.images.errors import UsageError
from spotrun.runtime import report

_F = TypeVar("_F", bound=Callable[..., Any])
_MODE = 0o644
"""Others than root are to read it."""


def file_option(function: _F) -> _F:
    """Add `-o`; the verb gets `file`, or None for stdout."""
    add = click.option(
        "-o",
        "--output",
        "file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        callback=_regular,
        help="write it there, whole or not at all; default: to stdout",
    )
    return add(function)


def _regular(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:  # noqa: ARG001 # click's signature
    """Refuse what a file must not take the place of; a link stays, and what it names is written."""
    path = value.resolve() if value else None
    if path and not path.parent.is_dir():
        raise click.BadParameter(f"{path.parent} is no folder")
    if value and path and value.exists() and not path.is_file():  # /dev/stdout may name a pipe
        raise click.BadParameter(f"{value} is no file")
    return path


def put(file: Path, text: str) -> None:
    """Write it for all to read; what was there stays until this is whole."""
    write_atomic(file, text.encode(), mode=_MODE)


@click.command("report")
@click.argument("job", shell_complete=job_names)
@file_option
@price_option
@store_option
@format_option
def command(job: str, file: Path | None, store: Address | None, price: float | None) -> Result:
    """Make a page about JOB: what it comes to, its timeline, and all its events.

    It is one HTML file that needs nothing else. With --price it has what the hours cost in which
    the job ran, and what those would that its last run did not have to do again.
    """
    if file is None and not output().json and sys.stdout.isatty():
        raise UsageError(message="a page is nothing for a terminal: use -o FILE, or redirect it")
    host = open_host()
    history = found(host, job, store)
    page = report.page(job, history, now=host.clock.now(), price=price)
    summary = ledger.summarise(history.events)
    data = {
        "job": job,
        "file": file and str(file),
        "page": None if file else page,
        "summary": summary,
        "cost": None if price is None else summary.cost(price),
    }
    if file is None:
        return Result(data, Text(page.rstrip("\n")))
    put(file, page)
    output().note(f"the page about job {job!r} is {file}")
    return Result(data)
