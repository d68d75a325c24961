"""A program is asked for its version once, and again when it is another one."""

import os
from pathlib import Path

import pytest

from spotrun.runtime.remembered import Remembering

_ASKED = ["criu", "--version"]


@pytest.fixture
def criu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a program of that name, which notes each call beside itself."""
    program = tmp_path / "bin" / "criu"
    program.parent.mkdir()
    (tmp_path / "answers").mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    _install(program, "Version: 4.2")
    return program


@pytest.fixture
def runner(criu: Path) -> Remembering:
    """Return a runner that keeps answers in a folder."""
    return Remembering(criu.parents[1] / "answers")


def _install(program: Path, said: str, status: int = 0) -> None:
    fresh = program.with_suffix(".new")
    fresh.write_text(f"#!/bin/sh\necho asked >>{program}.calls\necho '{said}'\nexit {status}\n")
    fresh.chmod(0o755)
    fresh.rename(program)


def _calls(program: Path) -> int:
    return len(Path(f"{program}.calls").read_text().splitlines())


def test_a_version_is_asked_once(runner: Remembering, criu: Path) -> None:
    """The second answer is the first, also in another process."""
    first = runner.run(_ASKED)
    assert runner.run(_ASKED) == first == Remembering(criu.parents[1] / "answers").run(_ASKED)
    assert first.stdout == "Version: 4.2\n"
    assert _calls(criu) == 1


def test_an_upgrade_is_noticed(runner: Remembering, criu: Path) -> None:
    """Another file has another answer."""
    runner.run(_ASKED)
    _install(criu, "Version: 5.0")
    assert runner.run(_ASKED).stdout == "Version: 5.0\n"


def test_another_program_in_front_is_noticed(
    runner: Remembering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found as a shell finds it."""
    runner.run(_ASKED)
    other = tmp_path / "other" / "criu"
    other.parent.mkdir()
    _install(other, "Version: 3.17")
    monkeypatch.setenv("PATH", f"{other.parent}:{os.environ['PATH']}")
    assert Remembering(tmp_path / "answers").run(_ASKED).stdout == "Version: 3.17\n"


def test_a_program_that_does_not_start_is_asked_again(runner: Remembering, criu: Path) -> None:
    """What failed may have been mended meanwhile without touching the program."""
    _install(criu, "no library", status=127)
    assert [runner.run(_ASKED).status, runner.run(_ASKED).status] == [127, 127]
    assert _calls(criu) == 2


def test_other_questions_are_never_remembered(runner: Remembering, criu: Path) -> None:
    """A check asks the kernel, whose answer changes."""
    for _ in range(2):
        assert runner.run(["criu", "check"]).stdout == "Version: 4.2\n"
    assert _calls(criu) == 2


def test_an_answer_that_is_cut_off_is_asked_for_again(runner: Remembering, tmp_path: Path) -> None:
    """Nothing in the folder can make a question fail."""
    runner.run(_ASKED)
    (tmp_path / "answers" / "criu").write_bytes(b"{")
    assert runner.run(_ASKED).stdout == "Version: 4.2\n"


def test_who_may_not_write_gets_an_answer(criu: Path, tmp_path: Path) -> None:
    """The folder need not be there."""
    assert Remembering(tmp_path / "none").run(_ASKED).status == 0
    assert _calls(criu) == 1
