"""`spotrun snapshots`: what the store holds."""

from dataclasses import dataclass

import click

from spotrun.cli.common import format_option, open_host, store_option
from spotrun.cli.completion import job_names
from spotrun.cli.output import size, table
from spotrun.cli.result import Result
from spotrun.images.address import Address
from spotrun.images.manifest import Manifest
from spotrun.runtime import lookup


@click.command("snapshots")
@click.argument("job", required=False, shell_complete=job_names)
@store_option
@format_option
def command(job: str | None, store: Address | None) -> Result:
    """List the snapshots of JOB, or of all jobs, oldest first."""
    host = open_host()
    place = host.store(lookup.store_of(host, job, store))
    found = (it for _, _, it in place.examined(place.ids(job)) if isinstance(it, Manifest))
    rows = sorted(map(_row, found), key=lambda row: (row.created, row.snapshot))
    shown = table("SNAPSHOT", "JOB", "KIND", "EPOCH", "HOST", "SIZE", "PARENT")
    for it in rows:
        parent = it.parent or ""
        shown.add_row(it.snapshot, it.job, it.kind, str(it.epoch), it.host, size(it.bytes), parent)
    return Result(rows, shown)


@dataclass(frozen=True, slots=True)
class _Row:
    snapshot: str
    job: str
    kind: str
    epoch: int
    created: str
    host: str
    bytes: int
    parent: str | None


def _row(it: Manifest) -> _Row:
    """Keep what is shown: ten thousand manifests would take up a lot of memory."""
    host = it.host.hostname
    return _Row(it.snapshot, it.job, it.kind, it.epoch, it.created, host, it.bytes, it.parent)
