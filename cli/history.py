"""`spotrun history`: what has happened to a job, on all its hosts."""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click

from spotrun.cli.common import format_option, open_host, output, store_option
from spotrun.cli.completion import job_names
from spotrun.cli.output import counted, size, table
from spotrun.cli.result import Result
from spotrun.images import ledger
from spotrun.images.address import Address
from spotrun.images.errors import SnapshotNotFound
from spotrun.images.ledger import Cost, Event, History, Summary
from spotrun.runtime import lookup
from spotrun.runtime.host import Host

_F = TypeVar("_F", bound=Callable[..., Any])


def price_option(function: _F) -> _F:
    """Add `--price`; the verb gets `price`, USD for an hour of a host, or None."""
    add = click.option(
        "--price",
        metavar="USD_PER_HOUR",
        callback=_price,
        help="of a host: also tell what its hours cost, and those of work that was not lost",
    )
    return add(function)


def _price(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:  # noqa: ARG001 # click's signature
    """Read a number that is none below 0."""
    if value is None:
        return None
    with suppress(ValueError):
        price = float(value)
        if math.isfinite(price) and price >= 0:
            return price
    raise click.BadParameter(f"{value!r} is not a price like 3.06")


def found(host: Host, job: str, store: Address | None) -> History:
    """Return what is known of a job, or raise SnapshotNotFound; tell what cannot be read."""
    opened = host.store(lookup.store_of(host, job, store))
    history = ledger.read(opened, job)
    if not history.events:
        raise SnapshotNotFound(which=f"or history of job {job!r}", store=opened)
    if history.unreadable:
        output().note(f"{history.unreadable} more cannot be read; see `spotrun verify`")
    return history


@click.command("history")
@click.argument("job", shell_complete=job_names)
@price_option
@store_option
@format_option
def command(job: str, store: Address | None, price: float | None) -> Result:
    """Show what has happened to JOB, on all its hosts, and what that comes to.

    With --price also in money: what the hours cost in which it ran, as far as something was heard
    of it, and what those would that its last run did not have to do again, against a restart from
    scratch. What hosts cost while they boot or wait is not known here.
    """
    history = found(open_host(), job, store)
    shown = table(
        "WHEN (UTC)", "HOST", "EPOCH", "WHAT", "SNAPSHOT", "TOOK", "FROZEN", "BYTES", "WHY"
    )
    for it in history.events:
        shown.add_row(*_cells(it))
    summary = ledger.summarise(history.events)
    cost = None if price is None else summary.cost(price)
    output().note(_sentence(summary, cost))
    return Result({"events": history.events, "summary": summary, "cost": cost}, shown)


def _cells(it: Event) -> tuple[str, ...]:
    what = f"{it.kind} {it.rung}" if it.rung else it.kind
    why = it.reason if it.deadline is None else f"{it.deadline:.0f} s left by {it.reason}"
    took, frozen = (
        f"{seconds:.1f} s" if seconds else "" for seconds in (it.seconds, it.frozen_seconds)
    )
    when = it.at[:19].replace("T", " ")
    return when, it.host, str(it.epoch), what, it.snapshot or "", took, frozen, size(it.bytes), why


def _sentence(it: Summary, cost: Cost | None) -> str:
    money = (
        (
            f"; at ${cost.per_hour:,.2f} an hour that is ${cost.paid:,.2f},"
            f" and ${cost.spared:,.2f} need not be paid again"
        )
        if cost
        else ""
    )
    return (
        f"{counted(it.runs, 'run')} on {counted(len(it.hosts), 'host')},"
        f" {counted(it.interruptions, 'interruption')}, {counted(it.snapshots, 'snapshot')} of"
        f" {size(it.bytes) or '0 B'}; it ran {it.ran:.0f} s and was"
        f" frozen {it.frozen:.1f} s; {it.saved:.0f} s of work need not be done again{money}"
    )
