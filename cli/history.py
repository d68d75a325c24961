"""`spotrun history`: what has happened to a job, on all its hosts."""

import click

from spotrun.cli.common import format_option, open_host, output, store_option
from spotrun.cli.completion import job_names
from spotrun.cli.output import size, table
from spotrun.cli.result import Result
from spotrun.images import ledger
from spotrun.images.address import Address
from spotrun.images.errors import SnapshotNotFound
from spotrun.images.ledger import Event, Summary
from spotrun.runtime import lookup


@click.command("history")
@click.argument("job", shell_complete=job_names)
@store_option
@format_option
def command(job: str, store: Address | None) -> Result:
    """Show what has happened to JOB, on all its hosts, and what that comes to."""
    host = open_host()
    opened = host.store(lookup.store_of(host, job, store))
    found = ledger.read(opened, job)
    if not found.events:
        raise SnapshotNotFound(which=f"or history of job {job!r}", store=opened)
    if found.unreadable:
        output().note(f"{found.unreadable} more cannot be read; see `spotrun verify`")
    shown = table(
        "WHEN (UTC)", "HOST", "EPOCH", "WHAT", "SNAPSHOT", "TOOK", "FROZEN", "BYTES", "WHY"
    )
    for it in found.events:
        shown.add_row(*_cells(it))
    summary = ledger.summarise(found.events)
    output().note(_sentence(summary))
    return Result({"events": found.events, "summary": summary}, shown)


def _cells(it: Event) -> tuple[str, ...]:
    what = f"{it.kind} {it.rung}" if it.rung else it.kind
    why = it.reason if it.deadline is None else f"{it.deadline:.0f} s left by {it.reason}"
    took, frozen = (
        f"{seconds:.1f} s" if seconds else "" for seconds in (it.seconds, it.frozen_seconds)
    )
    when = it.at[:19].replace("T", " ")
    return when, it.host, str(it.epoch), what, it.snapshot or "", took, frozen, size(it.bytes), why


def _sentence(it: Summary) -> str:
    return (
        f"{it.runs} runs on {len(it.hosts)} hosts, {it.interruptions} interruptions,"
        f" {it.snapshots} snapshots of {size(it.bytes) or '0 B'}; it ran {it.ran:.0f} s and was"
        f" frozen {it.frozen:.1f} s; {it.saved:.0f} s of work need not be done again"
    )
