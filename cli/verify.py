"""`spotrun verify`: whether the store has all that its snapshots need."""

from collections.abc import Sequence

import click
from rich.table import Table

from spotrun.cli.common import format_option, open_host, output, store_option
from spotrun.cli.output import size, table
from spotrun.cli.result import Result
from spotrun.images import verify
from spotrun.images.address import Address
from spotrun.images.errors import ExitCode
from spotrun.images.manifest import PhaseRecord
from spotrun.images.verify import Finding


@click.command("verify")
@click.option("--read-data", is_flag=True, help="read every chunk, too, and compare all of them")
@store_option
@format_option
def command(store: Address | None, *, read_data: bool) -> Result:
    """Find what is damaged or missing in the store, and which snapshots that hits."""
    host, told = open_host(), output()
    opened, start = host.store(store), host.clock.monotonic()
    told.begin("verify")
    found = verify.verify(opened, read_data=read_data, tell=told.progress)
    seconds = round(host.clock.monotonic() - start, 4)
    told.end(PhaseRecord("verify", seconds, found.bytes_read))
    data = {
        "findings": found.findings,
        "lost": found.lost,
        "snapshots": found.snapshots,
        "images": found.images,
        "packs": len(found.named),
        "bytes": found.bytes,
        "bytes_read": found.bytes_read,
        "unneeded": found.unneeded,
        "unneeded_bytes": found.unneeded_bytes,
    }
    if found.findings:
        return Result(data, findings(found.findings), ExitCode.OWN_ERROR)
    looked_at = "all of" if read_data else "their ends of"
    told.note(
        f"{found.snapshots} snapshots are whole: {looked_at} {len(found.named)} packs"
        f" with {size(found.bytes) or 'no bytes'} looked at"
    )
    return Result(data)


def findings(found: Sequence[Finding]) -> Table:
    """Return what is wrong, for people."""
    shown = table("OBJECT", "WHAT IS WRONG", "SNAPSHOTS")
    for it in found:
        shown.add_row(it.key, it.reason, " ".join(it.snapshots))
    return shown
