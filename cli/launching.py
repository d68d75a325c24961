"""What `run` and `create` do, without click: their command lines are the engine's."""

import os
from collections.abc import Sequence
from typing import Final

from spotrun.cli.opened import KEY_FILE, address, opened
from spotrun.cli.output import Output
from spotrun.cli.result import Result
from spotrun.images.errors import ExitCode, UsageError
from spotrun.runtime import engines, grammar, jobs, launcher

VERBS: Final = ("run", "create")
OWN: Final = frozenset(("--engine", "--format", "--store", "--key-file"))
"""Options of spotrun, before the image like all others."""


def launch(arguments: list[str], verb: str, told: Output) -> Result:
    """Make a job as `run` or `create` does."""
    spec = grammar.split(arguments)
    own = own_options(spec.options)
    spec = grammar.part(spec, OWN)
    attached = verb == "run" and not grammar.flag(spec.options, "--detach")
    if told.json and attached:
        raise UsageError(message="--format json needs --detach: the output is the container's")
    store = address(
        own.get("--store", os.environ.get("SPOTRUN_STORE")),
        own.get("--key-file", os.environ.get(KEY_FILE)),
    )
    host = opened(told)
    if "--engine" in own:
        host = host.on(engines.choose(own["--engine"]))
    started = launcher.run(host, spec, store=store, silent=told.json, verb=verb, tell=told.note)
    if started.exit_code == ExitCode.OK and not attached and engines.left_open(own.get("--engine")):
        told.note(f"job {started.job!r} is on {host.engine.name}")
    if started.exit_code == ExitCode.PREEMPTED:
        told.note(str(jobs.absent(host.paths, started.job)))
    return Result(started, exit_code=started.exit_code)


def own_options(words: Sequence[str]) -> dict[str, str]:
    """Return spotrun's own options among those before the image; a broken line has none."""
    found = (option for option in _options(words) if option.name in OWN)
    return {option.name: option.value or "" for option in found}


def asks_for_help(words: Sequence[str]) -> bool:
    """Tell whether `--help` is among the options."""
    return any(option.name == "--help" and option.on for option in _options(words))


def _options(words: Sequence[str]) -> list[grammar.Option]:
    try:
        return grammar.options(words)
    except UsageError:
        return []
