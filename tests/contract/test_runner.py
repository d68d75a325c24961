"""Every runner keeps the contract of `Runner`."""

import signal
from pathlib import Path

import pytest

from spotrun.images.process import Completed, Runner, SystemRunner
from tests.fakes.runner import ScriptedRunner

_TALK = ("sh", "-c", "echo out; echo err >&2; exit 3")
_SILENT = ("true",)
_DIE = ("sh", "-c", "kill -TERM $$")
_ABSENT = ("spotrun-no-such-program", "--flag")
_COUNT = ("wc", "-c")
_SLOW = ("sh", "-c", "echo out; exec sleep 0.5")
_SCRIPT = {
    _TALK: Completed(3, "out\n", "err\n"),
    _SILENT: Completed(0),
    _DIE: Completed(-signal.SIGTERM),
    _ABSENT: Completed(127, stderr="spotrun-no-such-program: No such file or directory"),
    _COUNT: Completed(0, "4\n"),
    _SLOW: Completed(0, "out\n"),
}
_EACH = pytest.mark.parametrize(
    "runner", [SystemRunner(), ScriptedRunner(_SCRIPT)], ids=lambda it: type(it).__name__
)


@_EACH
def test_run_returns_status_and_output(runner: Runner) -> None:
    """Both streams, apart."""
    done = runner.run(_TALK)
    assert (done.status, done.stdout, done.stderr) == (3, "out\n", "err\n")


@_EACH
def test_run_tells_a_signal_by_a_negative_status(runner: Runner) -> None:
    """It is told from every status that the child could choose."""
    assert runner.run(_DIE).status == -15


@_EACH
def test_run_of_a_missing_program_ends_with_127(runner: Runner) -> None:
    """The program is named on stderr."""
    done = runner.run(_ABSENT)
    assert done.status == 127
    assert done.said.startswith("spotrun-no-such-program: ")


@_EACH
@pytest.mark.parametrize(("argv", "status"), [(_SILENT, 0), (_DIE, 128 + 15), (_ABSENT, 127)])
def test_attach_returns_what_a_shell_would(
    runner: Runner, argv: tuple[str, ...], status: int
) -> None:
    """A signal is 128 and its number."""
    assert runner.attach(argv, silent=True) == status


@_EACH
def test_pipe_returns_both_ends(runner: Runner) -> None:
    """The producer's stderr and status are its own; its stdout went to the consumer."""
    produced, consumed = runner.pipe(_TALK, _COUNT)
    assert (produced.status, produced.stderr) == (3, "err\n")
    assert (consumed.status, consumed.stdout) == (0, "4\n")


@_EACH
def test_pipe_tells_what_has_been_written(runner: Runner) -> None:
    """While it goes on, and no other bytes than the producer's."""
    told: list[int] = []
    runner.pipe(_SLOW, _COUNT, told.append)
    assert told[-1] == 4
    assert set(told) <= {0, 4}


@_EACH
def test_pipe_of_a_missing_program_ends_with_127(runner: Runner) -> None:
    """Whichever end it is, and the other end comes to its end."""
    produced, _ = runner.pipe(_ABSENT, _COUNT)
    assert produced.status == 127
    _, consumed = runner.pipe(_TALK, _ABSENT)
    assert consumed.status == 127


@_EACH
def test_spawn_returns_a_pid(runner: Runner, tmp_path: Path) -> None:
    """It is not waited for."""
    assert runner.spawn(_SILENT, log=tmp_path / "log") > 1
