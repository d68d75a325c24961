"""The `spotrun` command: finds the verb, and turns what it returns or raises into an exit code."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NoReturn

from spotrun.cli import launching
from spotrun.cli.output import Output
from spotrun.cli.result import Result
from spotrun.images.errors import ExitCode, Interrupted, SpotrunError, Terminated, UsageError


def main(
    arguments: Sequence[str] | None = None, *, output: Callable[..., Output] = Output
) -> NoReturn:
    """Run a command line, by default this process's, and exit; `output` makes what prints."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    verb = next((word for word in words if not word.startswith("-")), "")
    told = output(json=_wants_json(verb, words))
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = _told(words, verb, told)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing more to say to a closed pipe
        code = ExitCode.OWN_ERROR
    if arguments is None:
        os._exit(code)  # Python's own end would be a tenth of what `run` costs
    sys.exit(code)


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
    if verb in launching.VERBS and not launching.asks_for_help(words[1:]) and words[0] == verb:
        returned: object = _launch(words, output)
    else:
        returned = _parse(words, output)
    if isinstance(returned, Result):
        output.result(verb, returned)
        return returned.exit_code
    return returned if isinstance(returned, int) else ExitCode.OK


def _launch(words: list[str], output: Output) -> Result:
    """Do without click, whose import takes as long as all the rest: users compare with docker."""
    try:
        return launching.launch(words[1:], words[0], output)
    except KeyboardInterrupt:
        raise Interrupted from None


def _parse(words: list[str], output: Output) -> object:
    import click

    from spotrun.cli.group import spotrun

    try:
        return spotrun.main(words, prog_name="spotrun", standalone_mode=False, obj=output)
    except click.UsageError as error:
        raise UsageError(message=error.format_message()) from error


def _wants_json(verb: str, words: list[str]) -> bool:
    """Tell it before anything is parsed, so that usage errors speak JSON too."""
    if verb in launching.VERBS:
        own = launching.own_options(words[words.index(verb) + 1 :])
        return own.get("--format") == "json"
    from spotrun.cli import passed

    if verb in passed.VERBS:
        return False
    return "--format=json" in words or ("--format", "json") in pairwise(words)


def _interrupt(signum: int, frame: object) -> NoReturn:  # noqa: ARG001 # signal's signature
    """Let SIGTERM take back what is under way, as Ctrl-C does."""
    raise Terminated
