"""What looks after a job is a service where systemd is, with the variables of who began it."""

import os
from pathlib import Path

import pytest

from spotrun.images.process import Completed
from spotrun.runtime import systemd
from tests.fakes.runner import ScriptedRunner

_ARGV = ["/usr/bin/python3", "-c", "main()", "supervise", "train"]


class _Systemd(ScriptedRunner):
    """Answers whatever is asked of it with one status."""

    def __init__(self, status: int) -> None:
        """Answer with that."""
        super().__init__({})
        self._status = status

    def _answer(self, argv: object) -> Completed:
        assert isinstance(argv, list)
        self.calls.append(tuple(argv))
        return Completed(self._status)


def _serve(runner: ScriptedRunner, folder: Path, its_folder: Path) -> bool:
    return systemd.serve(
        runner,
        "spotrun-train-1",
        _ARGV,
        environment=folder / "train",
        log=folder / "log",
        its_folder=its_folder,
    )


def test_command_becomes_a_service_that_is_begun_again(tmp_path: Path) -> None:
    """Its name, its log and the command are those that were given."""
    runner = _Systemd(0)
    assert _serve(runner, tmp_path, tmp_path)
    (call,) = runner.calls
    assert call[0] == "systemd-run"
    assert call[-len(_ARGV) - 1 :] == ("--", *_ARGV)
    assert {
        "--unit=spotrun-train-1",
        "--property=Restart=on-abnormal",
        "--property=SuccessExitStatus=85",
        "--property=KillMode=process",
        f"--property=EnvironmentFile={tmp_path}/train",
        f"--property=StandardOutput=append:{tmp_path}/log",
    } <= set(call)


def test_without_systemd_nothing_is_asked(tmp_path: Path) -> None:
    """It is not there for who has another init."""
    runner = _Systemd(0)
    assert not _serve(runner, tmp_path, tmp_path / "nothing")
    assert not runner.calls


def test_systemd_that_refuses_is_no_systemd(tmp_path: Path) -> None:
    """As one that is too old, or not to be reached."""
    assert not _serve(_Systemd(1), tmp_path, tmp_path)


def test_variables_are_written_so_that_systemd_reads_the_same_and_nobody_else_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for those by which systemd tells a service about itself."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("SECRET", "a \"b\" \\ $C `d`\ne 'f'")
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/notify")
    monkeypatch.setenv("INVOCATION_ID", "1")
    monkeypatch.setenv("LISTEN_FDS", "3")
    monkeypatch.setenv("NOT A NAME", "1")
    monkeypatch.setenv("NOTIFY_BY", "mail")  # its user's own, as for a command that gives notice
    _serve(_Systemd(0), tmp_path, tmp_path)
    file = tmp_path / "train"
    assert file.read_text() == 'SECRET="a \\"b\\" \\\\ \\$C \\`d\\`\ne \'f\'"\nNOTIFY_BY="mail"\n'
    assert file.stat().st_mode & 0o777 == 0o600


def test_only_the_process_that_systemd_started_is_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its children have the variable, too."""
    monkeypatch.setenv("SYSTEMD_EXEC_PID", str(os.getpid()))
    assert systemd.is_service()
    monkeypatch.setenv("SYSTEMD_EXEC_PID", "1")
    assert not systemd.is_service()
