"""The verbs that are the engine's own commands, with the names of jobs and this terminal.

Their options are the engine's and passed on unchanged; to find the jobs among the words, spotrun
must know which options take a value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

from spotrun.cli.completion import job_names
from spotrun.images.errors import UsageError
from spotrun.runtime.locks import Need

if TYPE_CHECKING:
    from spotrun.runtime.commands import Line

_SEVERAL: Final = "[OPTIONS] JOB [JOB…]"
_ONE: Final = "[OPTIONS] JOB"
_COMMAND: Final = "[OPTIONS] JOB COMMAND [ARG…]"
_ANY: Final = "[OPTIONS] [JOB…]"
_MANY: Final = "--cidfile -f --filter"
_STOPPING: Final = f"{_MANY} -t --time --timeout -s --signal"


@dataclass(frozen=True, slots=True)
class Verb:
    """One command of the engines."""

    line: str
    """What it does."""
    usage: str
    values: str
    """The options of Docker and Podman that take the next word as their value."""
    need: Need = Need.NONE
    more: str = ""


VERBS: Final = {
    "start": Verb(
        "start jobs that were created or have ended", _SEVERAL, "--detach-keys -f --filter",
        Need.FREE,
    ),
    "attach": Verb(
        "connect this terminal to a running job", _ONE, "--detach-keys",
        more="The exit code is 85 if the job leaves this host meanwhile.",
    ),
    "exec": Verb(
        "run another command in a running job", _COMMAND,
        "--detach-keys -e --env --env-file --preserve-fd --preserve-fds -u --user -w --workdir",
        more="As long as that runs, the job can be neither saved nor moved.",
    ),
    "stop": Verb("end jobs with their stop signal", _SEVERAL, _STOPPING, Need.HELD),
    "kill": Verb("send jobs a signal", _SEVERAL, f"{_MANY} -s --signal", Need.HELD),
    "restart": Verb("stop jobs and start them afresh", _SEVERAL, _STOPPING, Need.HELD),
    "pause": Verb("halt all processes of jobs", _SEVERAL, _MANY, Need.HELD),
    "unpause": Verb("let paused jobs go on", _SEVERAL, _MANY, Need.HELD),
    "inspect": Verb("show all that the engine knows of jobs", _SEVERAL, "-f --format -t --type"),
    "stats": Verb("show what running jobs use", _ANY, "--format -i --interval"),
}  # fmt: skip


class Passed(click.Command):
    """Leaves the options to the engine."""

    def __init__(self, name: str) -> None:
        """Describe it as the table does."""
        self._verb = VERBS[name]
        first = f"{self._verb.line[0].upper()}{self._verb.line[1:]}."
        super().__init__(name, callback=_run, help=f"{first}\n\n{self._verb.more}")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take only `--help`, before a command for the container."""
        if ctx.resilient_parsing:  # a shell asks what could come next
            return []
        line = parted(str(self.name), args)
        if "--help" in line.options:
            click.echo(self.get_help(ctx))
            ctx.exit()
        if not line.jobs and self._verb.usage is not _ANY:
            raise UsageError(message=f"no job was given: spotrun {self.name} {self._verb.usage}")
        ctx.params = {"line": line}
        return []

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Offer jobs."""
        return [CompletionItem(name) for name in job_names(ctx, None, incomplete)]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show where the jobs stand."""
        formatter.write_usage(ctx.command_path, self._verb.usage)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 # click's signature
        """Say whose they are."""
        with formatter.section("Options"):
            own = f"those of `docker {self.name}` or `podman {self.name}`, passed on unchanged"
            formatter.write_dl([("any", own)])


def parted(name: str, words: Sequence[str]) -> "Line":
    """Tell the options of a command line from the jobs and, behind one, the container's words."""
    from spotrun.runtime.commands import Line

    verb = VERBS[name]
    values, left = frozenset(verb.values.split()), list(words)
    options: list[str] = []
    jobs: list[str] = []
    while left:
        word = left.pop(0)
        if word == "--":
            jobs += left
            break
        if not word.startswith("-"):
            jobs.append(word)
            if verb.usage is _COMMAND:
                return Line(name, options, jobs, left)
            continue
        options.append(word)
        if left and _wants_next(word, values):
            options.append(left.pop(0))
    return Line(name, options, jobs)


def _wants_next(word: str, values: frozenset[str]) -> bool:
    """Tell whether an option's value is the next word: `--env A=1`, `-ite A=1`, not `-eA=1`."""
    if word.startswith("--"):
        return word in values
    letters = word[1:].partition("=")
    taking = [at for at, letter in enumerate(letters[0]) if f"-{letter}" in values]
    return not letters[1] and taking[:1] == [len(letters[0]) - 1]


def _run(line: "Line") -> int:
    from dataclasses import replace

    from spotrun.cli.common import open_host, output
    from spotrun.runtime import commands, jobs

    host, told = open_host(), output()
    if not line.jobs:
        line = replace(line, jobs=commands.running(host))
    if not line.jobs:
        told.note("no job runs on this host")
        return 0
    status = commands.pass_on(host, line, VERBS[line.verb].need)
    for job in line.jobs:
        if jobs.has_left(host.paths, job):
            told.note(str(jobs.absent(host.paths, job)))
    return status
