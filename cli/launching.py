"""What `run` and `create` do, without click: their command lines are the engine's."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spotrun.cli.opened import KEY_FILE, address, opened
from spotrun.cli.output import Output
from spotrun.cli.owned import ALL, COMING_BACK, FLAGS
from spotrun.cli.result import Result
from spotrun.images.address import Address
from spotrun.images.errors import ExitCode, Terminated, UsageError
from spotrun.images.runspec import RunSpec
from spotrun.runtime import engines, grammar, jobs, launcher

if TYPE_CHECKING:
    from spotrun.runtime.host import Host

VERBS: Final = ("run", "create")
_ALIKE: Final = 0.8
"""Of two names that are meant to be one (difflib)."""
ABOUT_TO_GO: Final = "this host is about to go: start the job elsewhere"


@dataclass(frozen=True, slots=True)
class Given:
    """A command line, parted into the engine's and spotrun's own."""

    verb: str
    spec: RunSpec
    own: dict[str, str]
    store: Address | None

    @property
    def attached(self) -> bool:
        """Tell whether this terminal is to be the container's."""
        return self.verb == "run" and not grammar.flag(self.spec.options, "--detach")


def launch(arguments: list[str], verb: str, told: Output) -> Result:
    """Make a job as `run` or `create` does."""
    spec = grammar.split(arguments)
    _refuse_misspelt(spec.options)
    own = own_options(spec.options)
    store = address(
        own.get("--store", os.environ.get("SPOTRUN_STORE")),
        own.get("--key-file", os.environ.get(KEY_FILE)),
    )
    given = Given(verb, grammar.part(spec, ALL), own, store)
    if told.json and given.attached:
        raise UsageError(message="--format json needs --detach: the output is the container's")
    comes_back = bool(COMING_BACK & own.keys())
    try:
        host = opened(told)
        if "--engine" in own:
            host = host.on(engines.choose(own["--engine"]))
        return _tended(host, given, told) if comes_back else _once(host, given, told)
    except Terminated:
        if not comes_back:
            raise
        told.note(ABOUT_TO_GO)
        return Result(None, exit_code=ExitCode.PREEMPTED)


def _tended(host: "Host", given: Given, told: Output) -> Result:
    """Import what only jobs that come back need."""
    from spotrun.cli import tended

    return tended.launch(host, given, told)


def _once(host: "Host", given: Given, told: Output) -> Result:
    started = launcher.run(
        host,
        given.spec,
        store=given.store,
        silent=told.json,
        verb=given.verb,
        tell=told.note,
    )
    left_open = engines.left_open(given.own.get("--engine"))
    if started.exit_code == ExitCode.OK and not given.attached and left_open:
        told.note(f"job {started.job!r} is on {host.engine.name}")
    if started.exit_code == ExitCode.PREEMPTED:
        told.note(str(jobs.absent(host.paths, started.job)))
    return Result(started, exit_code=started.exit_code)


def _refuse_misspelt(words: Sequence[str]) -> None:
    """Raise UsageError for what no engine has, and is like an option of spotrun's."""
    for option in grammar.options(words):
        if option.name not in grammar.KNOWN and option.name not in ALL:
            from difflib import get_close_matches

            for meant in get_close_matches(option.name, ALL, 1, _ALIKE):
                raise UsageError(message=f"no such option {option.name}; did you mean {meant}?")


def own_options(words: Sequence[str]) -> dict[str, str]:
    """Return spotrun's own options among those before the image; a broken line has none."""
    found = (it for it in _options(words) if it.name in ALL and (it.on or it.name not in FLAGS))
    return {option.name: option.value or "" for option in found}


def asks_for_help(words: Sequence[str]) -> bool:
    """Tell whether `--help` is among the options."""
    return any(option.name == "--help" and option.on for option in _options(words))


def _options(words: Sequence[str]) -> list[grammar.Option]:
    try:
        return grammar.options(words)
    except UsageError:
        return []
