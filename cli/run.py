"""`spotrun run`: the engine's own run, and the container is a job."""

import click
from click.shell_completion import CompletionItem

from spotrun.cli.common import output
from spotrun.cli.launching import asks_for_help, launch
from spotrun.cli.owned import ALL, FLAGS, PLACE, VALUES
from spotrun.cli.result import Result
from spotrun.runtime import grammar


class Launching(click.Command):
    """Leaves the command line to the grammar of `docker run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take only `--help`; `-h` is the container's host name."""
        if ctx.resilient_parsing:  # a shell asks what could come next
            return []
        if asks_for_help(args):
            click.echo(self.get_help(ctx))
            ctx.exit()
        ctx.params = {"arguments": args}
        return []

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:  # noqa: ARG002 # click's signature
        """Offer the options of the engines and spotrun's own."""
        names = sorted({*grammar.KNOWN, *ALL}) if incomplete.startswith("-") else []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the grammar."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] IMAGE [COMMAND] [ARG…]")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 # click's signature
        """List spotrun's own options."""
        with formatter.section("Options"):
            formatter.write_dl(
                [
                    ("--name NAME", "name of the job, which is the container's"),
                    *((f"{name} {takes}", means) for name, (takes, means) in PLACE.items()),
                    ("any other", "is the engine's own; unknown flags are written as --flag=true"),
                ]
            )
        if self.name != "run":
            return
        with formatter.section("Options of jobs that come back"):
            formatter.write_dl(
                [
                    *((f"{name} {takes}", means) for name, (takes, means) in VALUES.items()),
                    *FLAGS.items(),
                ]
            )


@click.command("run", cls=Launching)
def command(arguments: list[str]) -> Result:
    """Run a container that can be frozen and go on on another host.

    Options stand before IMAGE; everything behind it is the container's.
    """
    return launch(arguments, "run", output())
