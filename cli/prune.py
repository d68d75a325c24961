"""`spotrun prune`: snapshots that are not needed any more go, and what only they needed."""

import platform
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from spotrun.cli.common import format_option, open_host, output, store_option
from spotrun.cli.completion import job_names
from spotrun.cli.output import Output, size, table
from spotrun.cli.result import Result
from spotrun.images import prune
from spotrun.images.address import Address
from spotrun.images.care import Policy
from spotrun.images.prune import InTheWay, Pruned
from spotrun.images.retention import duration
from spotrun.runtime import lookup, unsent
from spotrun.runtime.steps import Steps

_F = TypeVar("_F", bound=Callable[..., Any])


def _within(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:  # noqa: ARG001 # click's signature
    try:
        return None if value is None else duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _rules(function: _F) -> _F:
    """Add the options that make a policy."""
    rules = {
        "last": "the last N snapshots of each job",
        "hourly": "the last one of each of the last N hours that have any",
        "daily": "the last one of each of the last N days that have any",
        "weekly": "the last one of each of the last N weeks that have any",
    }
    within = click.option(
        "--keep-within",
        metavar="TIME",
        callback=_within,
        help="keep all of the last 12h, 2d, 3w, …",
    )
    function = within(function)
    for rule, what in reversed(rules.items()):
        count = click.IntRange(min=1)
        add = click.option(f"--keep-{rule}", metavar="N", type=count, help=f"keep {what}")
        function = add(function)
    return function


@click.command("prune")
@click.argument("job", required=False, shell_complete=job_names)
@_rules
@click.option("--yes", is_flag=True, help="do it; without it, only what would go is shown")
@store_option
@format_option
def command(
    job: str | None,
    store: Address | None,
    *,
    keep_last: int | None,
    keep_hourly: int | None,
    keep_daily: int | None,
    keep_weekly: int | None,
    keep_within: timedelta | None,
    yes: bool,
) -> Result:
    """Remove snapshots of JOB, or of all jobs, that no --keep option keeps.

    Without these options no snapshot is removed. The newest of a job always stays. Then images and
    packs go that nothing needs any more, unless somebody pushes or restores just now. Ages are by
    the clock of the store.
    """
    host = open_host()
    policy = Policy(
        last=keep_last or 0,
        hourly=keep_hourly or 0,
        daily=keep_daily or 0,
        weekly=keep_weekly or 0,
        within=keep_within,
    )
    done = prune.prune(
        host.store(lookup.store_of(host, job, store)),
        policy,
        host=platform.node(),
        job=job,
        staying=unsent.staying(host),
        dry_run=not yes,
        step=Steps(host, output()).step,
    )
    shown = table("SNAPSHOT", "JOB", "STORED (UTC)", "KEPT")
    for it in done.snapshots:
        kept = ", ".join(it.reasons) or "no"
        shown.add_row(it.snapshot, it.job, _minute(it.modified), kept)
    _tell(output(), done)
    return Result(_data(done), shown if done.snapshots else None)


def tell_who(told: Output, found: Iterable[InTheWay]) -> None:
    """Say for whom images and packs stay."""
    for it in found:
        who = f"a {it.purpose} of job {it.job!r} by {it.host}" if it.purpose else "an unknown hold"
        told.note(f"packs stay for {who}, since {_minute(it.since)} UTC")


def _minute(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M}"


def _tell(told: Output, done: Pruned) -> None:
    gone = sum(not it.reasons for it in done.snapshots)
    verb = "would go; do it with --yes" if done.dry_run else "have gone"
    objects = f"{done.images} images and {done.packs} packs ({size(done.bytes) or '0 B'})"
    told.note(f"{gone} of {len(done.snapshots)} snapshots, {objects} {verb}")
    tell_who(told, done.in_the_way)


def _data(done: Pruned) -> dict[str, object]:
    rows = [
        (it, {"snapshot": it.snapshot, "job": it.job, "stored": it.modified})
        for it in done.snapshots
    ]
    return {
        "dry_run": done.dry_run,
        "kept": [{**row, "reasons": it.reasons} for it, row in rows if it.reasons],
        "removed": [row for it, row in rows if not it.reasons],
        "images": done.images,
        "packs": done.packs,
        "bytes": done.bytes,
        "packs_left": done.packs_left,
        "bytes_left": done.bytes_left,
        "in_the_way": done.in_the_way,
    }
