"""`spotrun repair`: what is damaged is set aside, so that all else works again."""

import platform

import click

from spotrun.cli.common import format_option, open_host, output, store_option
from spotrun.cli.prune import tell_who
from spotrun.cli.result import Result
from spotrun.cli.verify import findings
from spotrun.images import repair
from spotrun.images.address import Address
from spotrun.images.errors import ExitCode
from spotrun.images.manifest import PhaseRecord


@click.command("repair")
@click.option("--read-data", is_flag=True, help="look at every chunk, as `verify --read-data` does")
@click.option("--yes", is_flag=True, help="do it; without it, only what would be done is shown")
@store_option
@format_option
def command(store: Address | None, *, read_data: bool, yes: bool) -> Result:
    """Save what can be saved of a damaged store, and set aside what is lost.

    Snapshots that cannot be read to their end are moved to `damaged/` in the store: then an older
    one is the newest of its job.
    """
    host, told = open_host(), output()
    opened, start = host.store(store), host.clock.monotonic()
    told.begin("repair")
    done = repair.repair(
        opened, host=platform.node(), read_data=read_data, apply=yes, tell=told.progress
    )
    told.end(PhaseRecord("repair", round(host.clock.monotonic() - start, 4)))
    verb = "has been" if yes else "would be"
    for key in done.rebuilt:
        told.note(f"{key} {verb} saved: what it needs is still there")
    for key in done.set_aside:
        told.note(f"{key} {verb} moved to damaged/{key}")
    tell_who(told, done.in_the_way)
    if not done.findings:
        told.note("nothing is damaged")
    elif not yes:
        told.note("do it with --yes")
    left = done.left if yes else done.findings
    code = ExitCode.OWN_ERROR if yes and left else ExitCode.OK
    return Result(done, findings(left) if left else None, code)
