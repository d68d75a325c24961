"""All verbs of `spotrun`, as click has them."""

from importlib import import_module
from keyword import iskeyword
from typing import Final

import click

from spotrun import __version__
from spotrun.cli import passed
from spotrun.images.errors import Interrupted

VERBS: Final = {
    "run": "run a container that can outlive this host",
    "create": "make a job without starting it",
    "ps": "list the jobs of this host",
    "logs": "show a job's output, from its first line on any host",
    **{name: verb.line for name, verb in passed.VERBS.items()},
    "wait": "wait until jobs have ended",
    "rm": "remove jobs, or with --snapshots all that is left of them",
    "checkpoint": "save a running job",
    "restore": "let a saved job go on here",
    "migrate": "move a running job to another host",
    "status": "tell whether jobs that are looked after can be saved in time",
    "notice": "tell that this host will go",
    "agent": "listen to this host's cloud for all its jobs",
    "history": "show what has happened to a job, on all its hosts",
    "report": "make a page of that, with a timeline",
    "metrics": "tell Prometheus about the jobs of this host",
    "push": "put a snapshot into a registry, or send what waits",
    "pull": "take a snapshot from a registry",
    "export": "write a snapshot as an archive for Podman or CRI-O",
    "import": "take an archive of Podman's as a snapshot",
    "snapshots": "list the snapshots in the store",
    "prune": "remove snapshots, and what nothing needs any more",
    "verify": "find what is damaged or missing in the store",
    "repair": "save what can be saved of a damaged store",
    "key": "add, replace, remove or list the keys of a store",
    "install": "tell the engines and shells of this host about spotrun",
    "uninstall": "take back what install has changed",
    "doctor": "check whether this host is fit, and say what to do",
    "peer": "serve another host's migrate",
    "supervise": "look after a job",
}
"""Each verb is the module of its name, or one of the engine's own."""
HIDDEN: Final = frozenset(("peer", "supervise"))
"""For spotrun itself."""


class _Verbs(click.Group):
    """Imports a verb's module when it is called, so that none pays for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 # click's signature
        """Return the verbs in the order of the table."""
        return [verb for verb in VERBS if verb not in HIDDEN]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 # click's signature
        """Import it."""
        if cmd_name not in VERBS:
            return None
        if cmd_name in passed.VERBS:
            return passed.Passed(cmd_name)
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        found: click.Command = import_module(f"spotrun.cli.{module}").command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or say which is like it."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            verbs = self.list_commands(ctx)
            raise click.NoSuchCommand(error.command_name, possibilities=verbs, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, VERBS[verb]) for verb in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb; an interrupt is spotrun's own error before click prints one."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None


@click.command(cls=_Verbs, context_settings={"auto_envvar_prefix": "SPOTRUN"})
@click.version_option(__version__)
def spotrun() -> None:
    """Docker run, and the job outlives the machine.

    \b
    Exit codes:
      125   spotrun's own error, with one sentence on stderr
      126   the container's command cannot be invoked
      127   the container's command is not found
      130   interrupted, and what was under way has been taken back
      85    the job was stopped and its snapshot is stored: start it elsewhere
      else  the container's own; 128+n: it died of signal n
    """  # noqa: D301 # \b keeps the table; the first line is a title
