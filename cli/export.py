"""`spotrun export`: a snapshot becomes a checkpoint archive for other tools."""

from pathlib import Path

import click

from spotrun.cli.common import open_host, output, store_option
from spotrun.cli.completion import job_names
from spotrun.cli.output import timeline
from spotrun.cli.result import Result
from spotrun.images.address import Address
from spotrun.runtime import export


@click.command("export")
@click.argument("which", metavar="JOB|SNAPSHOT", shell_complete=job_names)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "forms",
    type=click.Choice(["podman", "cri", "table", "json"]),
    multiple=True,
    help="podman: for `podman container restore --import`; cri: for CRI-O and containerd;"
    " also table or json: for people or programs",
)
@store_option
def command(which: str, file: Path, forms: tuple[str, ...], store: Address | None) -> Result:
    """Write a snapshot, or a job's newest, as an archive that Podman or CRI-O restores.

    checkpointctl reads both.
    """
    chosen = [it for it in forms if it in set(export.Form)]
    form = export.Form(chosen[-1] if chosen else export.Form.PODMAN)
    exported = export.export(
        open_host(), which, file.absolute(), form=form, store=store, observer=output()
    )
    output().note(f"snapshot {exported.snapshot} of job {exported.job!r} is in {file}")
    return Result(exported, timeline(exported.phases))
