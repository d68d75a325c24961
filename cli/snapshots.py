"""`spotrun snapshots`: what the store holds."""

import click

from spotrun.cli.common import format_option, open_host, store_option
from spotrun.cli.output import size, table
from spotrun.cli.result import Result
from spotrun.images.opening import Address


@click.command("snapshots")
@click.argument("job", required=False)
@store_option
@format_option
def command(job: str | None, store: Address | None) -> Result:
    """List the snapshots of JOB, or of all jobs, oldest first."""
    found = open_host().store(store, make=False).manifests(job)
    shown = table("SNAPSHOT", "JOB", "KIND", "EPOCH", "HOST", "SIZE", "PARENT")
    rows = []
    for it in found:
        host, parent = it.host.hostname, it.parent or ""
        shown.add_row(it.snapshot, it.job, it.kind, str(it.epoch), host, size(it.bytes), parent)
        rows.append(
            {
                "snapshot": it.snapshot,
                "job": it.job,
                "kind": it.kind,
                "epoch": it.epoch,
                "created": it.created,
                "host": host,
                "bytes": it.bytes,
                "parent": it.parent,
            }
        )
    return Result(rows, shown)
