"""`spotrun import`: a checkpoint archive of Podman becomes a snapshot."""

from pathlib import Path

import click

from spotrun.cli.common import format_option, open_host, output, store_option
from spotrun.cli.output import timeline
from spotrun.cli.result import Result
from spotrun.images.address import Address
from spotrun.runtime import importing


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", metavar="JOB", help="the job's name; default: the container's")
@store_option
@format_option
def command(file: Path, name: str | None, store: Address | None) -> Result:
    """Take FILE, from `podman container checkpoint --export`, into the store.

    `spotrun restore` goes on with it.
    """
    imported = importing.take(open_host(), file, name=name, store=store, observer=output())
    output().note(f"job {imported.job!r} is saved as {imported.snapshot} in {imported.store}")
    for volume in imported.missing:
        output().note(f"the archive does not have the content of volume {volume}")
    return Result(imported, timeline(imported.phases))
