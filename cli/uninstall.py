"""`spotrun uninstall`: what `install` changed becomes what it was."""

import click

from spotrun.cli.common import format_option
from spotrun.cli.install import find_site, told
from spotrun.cli.result import Result
from spotrun.runtime import registering


@click.command("uninstall")
@click.option("--dry-run", is_flag=True, help="only show what would change")
@format_option
def command(*, dry_run: bool) -> Result:
    """Take back all that `spotrun install` has changed on this host.

    Files are what they were, byte by byte; if somebody has changed one since, only what is
    spotrun's goes. It is refused while there are containers that need spotrun's OCI runtime. Jobs,
    snapshots and stores in /var/lib/spotrun stay.
    """
    return told(registering.uninstall(find_site(dry_run=dry_run), dry_run=dry_run))
