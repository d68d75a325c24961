"""`spotrun create`: a job that is yet to be started."""

import click

from spotrun.cli.common import output
from spotrun.cli.launching import launch
from spotrun.cli.result import Result
from spotrun.cli.run import Launching


@click.command("create", cls=Launching)
def command(arguments: list[str]) -> Result:
    """Make a job as `run` does, for `start` to start it.

    Options stand before IMAGE; everything behind it is the container's.
    """
    return launch(arguments, "create", output())
