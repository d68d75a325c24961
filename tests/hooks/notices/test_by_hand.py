"""Notices by a command and by a file."""

import os
import time
from pathlib import Path

import pytest

from spotrun.hooks.notices.command import Command
from spotrun.hooks.notices.file import File, give
from spotrun.hooks.notices.spoken import spoken
from spotrun.images.process import Completed, SystemRunner
from tests.fakes.runner import ScriptedRunner


class _Stuck(ScriptedRunner):
    def run(self, *_: object, **__: object) -> Completed:
        raise TimeoutError


def _command(completed: Completed) -> Command:
    return Command("look", ScriptedRunner({("sh", "-c", "look"): completed}))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        ("120s\n", 120),
        (" 1.5s ", 1.5),
        ("0", 0),
        ("", None),
        ("soon", None),
        ("-3", None),
        ("nan", None),
        ("1e400", None),
        ("9" * 400, None),
        ("120\n110\n", None),
    ],
)
def test_seconds_are_read_if_there_are_any(text: str, seconds: float | None) -> None:
    """Anything else is for people, and the deadline unknown."""
    notice = spoken("file", "1", text, 1000)
    assert notice.deadline == (None if seconds is None else 1000 + seconds)
    assert notice.words == text.strip()


@pytest.mark.parametrize(
    ("text", "seconds", "words"),
    [
        ("120s SIGTERM", 120, "SIGTERM"),
        ("120 hosts go", None, "120 hosts go"),
        ("2s2 goes", None, "2s2 goes"),
        ("advice 60s moved", 60, "advice moved"),
        ("advice", None, "advice"),
    ],
)
def test_reason_stands_behind_the_seconds(text: str, seconds: float | None, words: str) -> None:
    """A number with other words behind it is no time."""
    notice = spoken("file", "1", text, 0)
    assert (notice.deadline, notice.words) == (seconds, words)
    assert notice.order is not text.startswith("advice")


def test_command_that_fails_gives_no_notice() -> None:
    """It is how it says that all is well."""
    assert _command(Completed(1, "120")).poll(0) == ()


@pytest.mark.parametrize("status", [126, 127, -9])
def test_command_that_cannot_tell_says_nothing_either_way(status: int) -> None:
    """It is not there, or was killed."""
    assert _command(Completed(status, "120")).poll(0) is None


def test_command_that_takes_too_long_says_nothing_either_way() -> None:
    """It may be there all the same."""
    stuck = Command("look", _Stuck({}))
    assert stuck.poll(0) is None
    assert stuck.probe()


@pytest.mark.parametrize(("command", "here"), [("false", True), ("spotrun-no-such", False)])
def test_probe_tells_whether_a_command_can_be_run(command: str, *, here: bool) -> None:
    """Whatever it says then."""
    assert Command(command, SystemRunner()).probe() is here


def test_seconds_in_a_file_count_from_when_it_was_written(tmp_path: Path) -> None:
    """Who looks late has less time."""
    path = tmp_path / "notice"
    give(path, 120, why="")
    past = time.time() - 100
    os.utime(path, (past, past))
    (notice,) = File(path).poll(0) or ()
    assert notice.left() == pytest.approx(20, abs=1)


def test_file_written_anew_is_another_notice(tmp_path: Path) -> None:
    """With a deadline of its own, be it sooner or later."""
    path = tmp_path / "notice"
    source = File(path)
    give(path, 120, why="")
    (first,) = source.poll(0) or ()
    os.utime(path, (1, 1))
    give(path, why="")
    (second,) = source.poll(0) or ()
    assert first.event != second.event
    assert (second.deadline, second.words) == (None, "")


def test_file_that_cannot_be_read_says_nothing_either_way(tmp_path: Path) -> None:
    """It is there, or its folder is no folder."""
    (tmp_path / "file").touch()
    assert File(tmp_path).poll(0) is None
    assert File(tmp_path / "file" / "below").poll(0) is None
