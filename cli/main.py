"""The `spotrun` command: finds the verb, and turns what it returns or raises into an exit code."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from keyword import iskeyword
from typing import Any, Final, NoReturn

import click

from spotrun import __version__
from spotrun.cli.output import Output
from spotrun.cli.result import Result
from spotrun.images.errors import ExitCode, Interrupted, SpotrunError, UsageError

VERBS: Final = {
    "run": "run a container that can outlive this host",
    "ps": "list the jobs of this host",
    "logs": "show a job's output, from its first line on any host",
    "checkpoint": "save a running job",
    "restore": "let a saved job go on here",
    "migrate": "move a running job to another host",
    "push": "put a snapshot into a registry, or send what waits",
    "pull": "take a snapshot from a registry",
    "export": "write a snapshot as an archive for Podman or CRI-O",
    "import": "take an archive of Podman's as a snapshot",
    "snapshots": "list the snapshots in the store",
    "prune": "remove snapshots, and what nothing needs any more",
    "verify": "find what is damaged or missing in the store",
    "repair": "save what can be saved of a damaged store",
    "key": "add, replace, remove or list the keys of a store",
    "doctor": "check whether this host is fit, and say what to do",
    "peer": "serve another host's migrate",
}
"""Each verb is the module of its name; `peer` is for spotrun itself."""


class _Verbs(click.Group):
    """Imports a verb's module when it is called, so that none pays for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 # click's signature
        """Return the verbs in the order of the table."""
        return [verb for verb in VERBS if verb != "peer"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 # click's signature
        """Import it."""
        if cmd_name not in VERBS:
            return None
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        found: click.Command = import_module(f"spotrun.cli.{module}").command
        return found

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


def main(
    arguments: Sequence[str] | None = None, *, output: Callable[..., Output] = Output
) -> NoReturn:
    """Run one command line and exit; `output` makes what prints."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    verb = next((word for word in words if not word.startswith("-")), "")
    told = output(json=_wants_json(verb, words))
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        sys.exit(_told(words, verb, told))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing more to say to a closed pipe
        sys.exit(ExitCode.OWN_ERROR)


def _told(words: list[str], verb: str, output: Output) -> int:
    """Call the verb, tell its error if it has one, and return the exit code."""
    try:
        return _call(words, verb, output)
    except BrokenPipeError:
        raise
    except OSError as error:
        own = SpotrunError(message=error)
    except SpotrunError as error:
        own = error
    output.error(verb, own)
    return own.exit_code


def _call(words: list[str], verb: str, output: Output) -> int:
    try:
        returned: Any = spotrun.main(words, prog_name="spotrun", standalone_mode=False, obj=output)
    except click.UsageError as error:
        raise UsageError(message=error.format_message()) from error
    if isinstance(returned, Result):
        output.result(verb, returned)
        return returned.exit_code
    return returned if isinstance(returned, int) else ExitCode.OK


def _wants_json(verb: str, words: list[str]) -> bool:
    """Tell it before anything is parsed, so that usage errors speak JSON too."""
    if verb == "run":
        from spotrun.cli.run import own_options

        return own_options(words[words.index("run") + 1 :]).get("--format") == "json"
    return "--format=json" in words or ("--format", "json") in pairwise(words)


def _interrupt(signum: int, frame: object) -> NoReturn:  # noqa: ARG001 # signal's signature
    """Let SIGTERM take back what is under way, as Ctrl-C does."""
    raise KeyboardInterrupt
