"""`spotrun checkpoint`: a running job becomes a snapshot."""

import click

from spotrun.cli.common import format_option, open_host, output, store_option
from spotrun.cli.completion import job_names
from spotrun.cli.output import timeline
from spotrun.cli.result import Result
from spotrun.images.address import Address
from spotrun.runtime import capture


@click.command("checkpoint")
@click.argument("job", shell_complete=job_names)
@click.option("-R", "--leave-running", is_flag=True, help="let the job go on afterwards")
@store_option
@format_option
def command(job: str, store: Address | None, *, leave_running: bool) -> Result:
    """Save JOB: processes, changed files, volumes and log. It ends once it is saved.

    With --store its snapshots go there from now on.
    """
    state = capture.checkpoint(
        open_host(), job, leave_running=leave_running, store=store, observer=output()
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
