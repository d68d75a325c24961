"""What the command lines of both engines have in common."""

from collections.abc import Callable, Sequence
from typing import Final

from spotrun.images.errors import EngineError, ExitCode
from spotrun.images.process import Completed, Runner

MAKING: Final = frozenset(("run", "create"))
"""Commands that make a container, and so choose its OCI runtime."""
_OF_THE_ENGINE: Final = (ExitCode.OWN_ERROR, ExitCode.CANNOT_INVOKE, ExitCode.NOT_FOUND)
"""Exit codes of `run` that are not the container's."""


def call(
    runner: Runner,
    engine: str,
    argv: Sequence[str],
    verb: str,
    *,
    silent: bool,
    on_term: Callable[[], None] | None = None,
) -> int:
    """Run a command of an engine as `Engine.command` has it."""
    if not silent:
        return runner.attach(argv, on_term=on_term)
    from tempfile import TemporaryFile

    with TemporaryFile() as stderr:
        status = runner.attach(argv, silent=True, stderr=stderr)
        stderr.seek(0)
        said = stderr.read().decode(errors="replace")
    of_container = verb == "run" and status not in _OF_THE_ENGINE
    if status and not of_container:
        error = EngineError(engine=engine, reason=sentence(said))
        if verb == "run":
            error.exit_code = ExitCode(status)
        raise error
    return status


def checked(runner: Runner, engine: str, argv: Sequence[str]) -> Completed:
    """Run a command of an engine to its end; raise EngineError if it fails."""
    return require(engine, runner.run(argv))


def require(engine: str, done: Completed) -> Completed:
    """Return what a command of an engine left, or raise EngineError with what it said."""
    if done.status != 0:
        raise EngineError(engine=engine, reason=sentence(done.said))
    return done


def sentence(said: str) -> str:
    """Return the last line that says something, without what a CLI puts in front or behind."""
    lines = [line for line in said.splitlines() if not line.startswith("See '")]
    last = Completed(1, stderr="\n".join(lines)).said
    for prefix in ("docker: ", "Error response from daemon: ", "Error: "):
        last = last.removeprefix(prefix)
    return last
