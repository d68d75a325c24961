"""`spotrun checkpoint`: a running job becomes a snapshot."""

from dataclasses import replace

import click

from spotrun.cli.common import format_option, open_host, output, store_option
from spotrun.cli.completion import job_names
from spotrun.cli.output import timeline
from spotrun.cli.result import Result
from spotrun.cli.wishes import size
from spotrun.images.address import Address
from spotrun.runtime import capture


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:  # noqa: ARG001 # click's signature
    try:
        return None if value is None else size(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command("checkpoint")
@click.argument("job", shell_complete=job_names)
@click.option("-R", "--leave-running", is_flag=True, help="let the job go on afterwards")
@click.option(
    "--upload-limit",
    metavar="SIZE",
    callback=_size,
    help="bytes a second that go to the store at most, on the average: 10m",
)
@store_option
@format_option
def command(
    job: str, store: Address | None, *, leave_running: bool, upload_limit: int | None
) -> Result:
    """Save JOB: processes, changed files, volumes and log. It ends once it is saved.

    With --store its snapshots go there from now on.
    """
    host = replace(open_host(), upload_limit=upload_limit)
    state = capture.checkpoint(
        host, job, leave_running=leave_running, store=store, observer=output()
    )
    data = {
        "job": job,
        "snapshot": state.snapshot,
        "store": state.store.url,
        "phases": state.records,
    }
    output().note(f"job {job!r} is saved as {state.snapshot}")
    if store:
        output().note(f"its snapshots go to {store.url} from now on")
    return Result(data, timeline(state.records))
