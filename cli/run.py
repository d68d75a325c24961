"""`spotrun run`: the engine's own run, and the container is a job."""

import os
from collections.abc import Sequence
from typing import Final

import click

from spotrun.cli.common import address, open_host, output
from spotrun.cli.result import Result
from spotrun.images.errors import ExitCode, UsageError
from spotrun.runtime import grammar, launcher

_OWN: Final = frozenset(("--format", "--store", "--key-file"))


class _Run(click.Command):
    """Leaves the command line to the grammar of `docker run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take only `--help`, when it stands first."""
        if args[:1] in (["--help"], ["-h"]):
            click.echo(self.get_help(ctx))
            ctx.exit()
        ctx.params = {"arguments": args}
        return []

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the grammar."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] IMAGE [COMMAND] [ARG…]")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 # click's signature
        """List spotrun's own options."""
        with formatter.section("Options"):
            formatter.write_dl(
                [
                    ("--name NAME", "name of the job, which is the container's"),
                    ("--store PLACE", "where its snapshots go: a path, or s3://BUCKET/PREFIX, …"),
                    ("--key-file FILE", "the file with the secret of an encrypted store"),
                    ("--format table|json", "for people or programs; json needs --detach"),
                    ("any other", "is `podman run`'s own and passed on unchanged"),
                ]
            )


@click.command("run", cls=_Run)
def command(arguments: list[str]) -> Result:
    """Run a container that can be frozen and go on on another host.

    Options stand before IMAGE; everything behind it is the container's.
    """
    told = output()
    spec = grammar.split(arguments)
    own = own_options(spec.options)
    spec = grammar.part(spec, _OWN)
    attached = not grammar.flag(spec.options, "--detach")
    if told.json and attached:
        raise UsageError(message="--format json needs --detach: the output is the container's")
    store = address(
        own.get("--store", os.environ.get("SPOTRUN_STORE")),
        own.get("--key-file", os.environ.get("SPOTRUN_KEY_FILE")),
    )
    started = launcher.run(open_host(), spec, store=store, silent=told.json)
    if started.exit_code == ExitCode.PREEMPTED:
        told.note(f"job {started.job!r} has left this host; its snapshot is stored")
    return Result(started, exit_code=started.exit_code)


def own_options(words: Sequence[str]) -> dict[str, str]:
    """Return spotrun's own options among those before the image; a broken line has none."""
    try:
        found = grammar.options(words)
    except UsageError:
        return {}
    return {option.name: option.value or "" for option in found if option.name in _OWN}
