"""`spotrun rm`: jobs that are no longer wanted."""

import click

from spotrun.cli.common import format_option, open_host, store_option
from spotrun.cli.completion import job_names
from spotrun.cli.result import Result
from spotrun.images.address import Address
from spotrun.images.errors import JobNotFound, SpotrunError
from spotrun.runtime import commands


@click.command("rm")
@click.argument("names", metavar="JOB…", nargs=-1, required=True, shell_complete=job_names)
@click.option(
    "-f",
    "--force",
    is_flag=True,
    help="also running ones, here or elsewhere; a missing one is no error",
)
@click.option("-v", "--volumes", is_flag=True, help="with their anonymous volumes")
@click.option("--snapshots", is_flag=True, help="with all their snapshots in their store")
@store_option
@format_option
def command(
    names: tuple[str, ...],
    *,
    force: bool,
    volumes: bool,
    snapshots: bool,
    store: Address | None,
) -> Result:
    """Remove each JOB from this host; its snapshots stay where they are.

    With --snapshots and --store also what is left of a job that this host does not know.
    """
    host, removed = open_host(), []
    errors: list[SpotrunError] = []
    given = {"--force": force, "--volumes": volumes}
    options = [option for option, on in given.items() if on]
    for name in names:
        try:
            commands.remove(host, name, options, snapshots=snapshots, elsewhere=store)
        except SpotrunError as error:  # the others can still be removed
            if not force or type(error) is not JobNotFound:
                errors.append(error)
        else:
            removed.append(name)
    if errors:
        for other in errors[1:]:
            errors[0].add_note(str(other))
        raise errors[0]
    return Result({"removed": removed}, "\n".join(removed) or None)
