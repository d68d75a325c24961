"""What callers may rely on of real child processes, beyond the contract of every runner."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spotrun.images.errors import CommandFailed
from spotrun.images.process import Completed, SystemRunner, checked

_ODD = 61.0017
_SECONDS = 5.0
_ATTACH = """
from spotrun.images.process import SystemRunner
raise SystemExit(SystemRunner().attach(
    ["sh", "-c", "trap 'exit 9' INT; echo ready; while :; do sleep 0.01; done"]
))
"""
_HEAR = """
import sys
from spotrun.images.process import SystemRunner
script = "trap 'echo heard; N=9' %s; echo ready; until [ $N ]; do sleep 0.01; done; sleep 0.1"
script += "; exit $N"
raise SystemExit(SystemRunner().attach(["sh", "-c", script % sys.argv[1]]))
"""
_IGNORING = """
from spotrun.images.process import SystemRunner
raise SystemExit(SystemRunner().attach(["sh", "-c", "kill -HUP $$"]))
"""
_DESCRIPTORS = """
import os
from spotrun.images.process import SystemRunner
os.open("/dev/null", os.O_RDONLY)
raise SystemExit(SystemRunner().attach(["sh", "-c", "echo written >&7; ! true <&3"]))
"""
_SPAWN = """
import sys
from pathlib import Path
from spotrun.images.process import SystemRunner
print(SystemRunner().spawn(["sleep", "60"], log=Path(sys.argv[1])))
"""


@pytest.fixture
def runner() -> SystemRunner:
    """Give the runner of this host."""
    return SystemRunner()


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_program_that_cannot_be_executed_ends_with_126(
    runner: SystemRunner, tmp_path: Path
) -> None:
    """It is told from one that is missing, as a shell does."""
    (tmp_path / "data").write_text("no program")
    done = runner.run([str(tmp_path / "data")])
    assert (done.status, done.said) == (126, f"{tmp_path}/data: Permission denied")
    assert runner.attach([str(tmp_path / "data")]) == 126


def test_text_is_given_to_stdin(runner: SystemRunner) -> None:
    """Without any, stdin is empty and does not wait for this process's own."""
    assert runner.run(["cat"], stdin="text ü").stdout == "text ü"
    assert runner.run(["cat"]) == Completed(0)


def test_file_is_given_to_stdin(runner: SystemRunner, tmp_path: Path) -> None:
    """The child reads it itself, from where it stands."""
    (tmp_path / "in").write_bytes(b"skipped, read")
    with (tmp_path / "in").open("rb", buffering=0) as file:
        file.seek(len("skipped, "))
        assert runner.run(["cat"], stdin=file).stdout == "read"


def test_stdout_can_go_to_a_file(runner: SystemRunner, tmp_path: Path) -> None:
    """It is then not returned."""
    with (tmp_path / "out").open("wb") as file:
        done = runner.run(["sh", "-c", "echo out; echo err >&2"], stdout=file)
    assert (tmp_path / "out").read_bytes() == b"out\n"
    assert done == Completed(0, stderr="err\n")


def test_bytes_that_are_no_text_are_replaced(runner: SystemRunner) -> None:
    """A program may say anything without harm."""
    assert runner.run(["printf", r"\377x"]).stdout == "\ufffdx"


def test_child_gets_no_descriptor_but_the_passed_ones(runner: SystemRunner) -> None:
    """Locks and sockets of this process are not held by its children unless they must."""
    with Path(os.devnull).open() as file:
        passed, kept = (fcntl.fcntl(file, fcntl.F_DUPFD, 100) for _ in range(2))
        os.set_inheritable(kept, True)  # noqa: FBT003 # the signature is os's
        try:
            seen = runner.run(["ls", "/proc/self/fd"], pass_fds=[passed]).stdout.split()
        finally:
            os.closerange(passed, kept + 1)
    assert str(passed) in seen
    assert str(kept) not in seen


def test_child_starts_where_it_is_told(runner: SystemRunner, tmp_path: Path) -> None:
    """By default in this process's own folder."""
    assert runner.run(["pwd"], cwd=tmp_path).stdout == f"{tmp_path}\n"
    assert runner.run(["pwd"]).stdout == f"{Path.cwd()}\n"


def test_environment_is_added_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is inherited stays."""
    monkeypatch.setenv("INHERITED", "1")
    added = SystemRunner({"ADDED": "2"})
    assert added.run(["sh", "-c", "echo $INHERITED $ADDED"]).stdout == "1 2\n"


def test_child_that_takes_too_long_is_killed(runner: SystemRunner, tmp_path: Path) -> None:
    """The error names the program and the limit."""
    script = f"echo $$ > {tmp_path}/pid; exec sleep 60"
    with pytest.raises(TimeoutError, match=r"^sh took more than 0\.2 s$"):
        runner.run(["sh", "-c", script], timeout=0.2)
    assert not Path(f"/proc/{int((tmp_path / 'pid').read_text())}").exists()


def test_children_of_one_that_takes_too_long_are_killed_too(runner: SystemRunner) -> None:
    """They have the pipe that is read: who waits for its end is not kept waiting."""
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        runner.run(["sh", "-c", f"sleep {_ODD} & sleep {_ODD}"], timeout=0.2)
    assert time.monotonic() - begun < 30
    left = subprocess.run(["pgrep", "--full", f"^sleep {_ODD}$"], capture_output=True, check=False)
    assert not left.stdout


def test_ctrl_c_does_not_reach_a_child_that_is_run(runner: SystemRunner) -> None:
    """CRIU cut off in a dump would ruin the job: the child is in a session of its own."""
    shown = runner.run([sys.executable, "-IS", "-c", "import os; print(os.getsid(0), os.getpid())"])
    session, pid = shown.stdout.split()
    assert session == pid != str(os.getsid(0))


def test_ctrl_c_reaches_an_attached_child_which_decides() -> None:
    """The status is the child's own."""
    argv = [sys.executable, "-c", _ATTACH]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(_SECONDS) == 9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_signal_to_this_process_is_for_its_attached_child(
    send: Callable[[int, int], None], number: signal.Signals
) -> None:
    """It comes once, also if it is sent to the whole group."""
    argv = [sys.executable, "-c", _HEAR, number.name.removeprefix("SIG")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        send(child.pid, number)
        assert child.stdout.read() == b"heard\n"
        assert child.wait(_SECONDS) == 9


def test_attached_child_ignores_what_this_process_was_told_to_ignore() -> None:
    """As nohup wants it."""
    argv = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-c", _IGNORING]
    assert subprocess.run(argv, check=False, timeout=_SECONDS).returncode == 0


def test_attached_child_has_the_descriptors_of_this_process(tmp_path: Path) -> None:
    """As `--preserve-fds` wants it; not those that this process has opened itself."""
    script = f'exec 7> {tmp_path}/seven; exec "$@"'
    argv = ["sh", "-c", script, "sh", sys.executable, "-c", _DESCRIPTORS]
    subprocess.run(argv, check=True, timeout=_SECONDS)
    assert (tmp_path / "seven").read_text() == "written\n"


def test_terminal_sends_its_signals_itself() -> None:
    """Ctrl-C comes once to the attached child of a process in the foreground."""
    master, slave = os.openpty()
    argv = ["setsid", "--ctty", "--wait", sys.executable, "-c", _HEAR, "INT"]
    with subprocess.Popen(argv, stdin=slave, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        os.write(master, b"\x03")
        assert child.stdout.read() == b"heard\n"
        assert child.wait(_SECONDS) == 9
    os.close(master)
    os.close(slave)


def test_stderr_of_an_attached_child_can_go_to_a_file(
    runner: SystemRunner, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What a program is to be told need not be on this stderr."""
    with (tmp_path / "err").open("wb") as file:
        assert runner.attach(["sh", "-c", "echo out; echo err >&2"], stderr=file) == 0
    assert (tmp_path / "err").read_text() == "err\n"
    assert capfd.readouterr() == ("out\n", "")


def test_attached_child_has_this_stdout_unless_silent(
    runner: SystemRunner, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its stderr is always shown."""
    argv = ["sh", "-c", "echo out; echo err >&2"]
    assert runner.attach(argv) == runner.attach(argv, silent=True) == 0
    assert capfd.readouterr() == ("out\n", "err\nerr\n")


def test_pipe_carries_any_amount_of_any_bytes(runner: SystemRunner) -> None:
    """Nothing passes through this process."""
    produced, consumed = runner.pipe(["head", "-c", "3000000", "/dev/zero"], ["wc", "-c"])
    assert (produced.status, consumed.stdout.strip()) == (0, "3000000")


def test_consumer_that_ends_early_ends_the_producer(runner: SystemRunner) -> None:
    """A target that refuses does not leave `tar` hanging."""
    produced, consumed = runner.pipe(["cat", "/dev/zero"], ["false"])
    assert (produced.status, consumed.status) == (-signal.SIGPIPE, 1)


def test_producer_that_talks_much_does_not_block(runner: SystemRunner) -> None:
    """Its stderr has no limit, and its last line is what it said."""
    script = "head -c 300000 /dev/zero | tr '\\0' x >&2; echo >&2; echo last >&2; exit 4"
    produced, _ = runner.pipe(["sh", "-c", script], ["cat"])
    assert (produced.status, produced.said) == (4, "last")


def test_spawned_process_outlives_its_parent(tmp_path: Path) -> None:
    """It is in a session of its own."""
    argv = [sys.executable, "-c", _SPAWN, str(tmp_path / "log")]
    pid = int(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout)
    assert os.getsid(pid) == pid
    os.kill(pid, signal.SIGKILL)


def test_spawned_process_adds_to_its_log(runner: SystemRunner, tmp_path: Path) -> None:
    """Both streams, behind what is there."""
    log = tmp_path / "log"
    log.write_text("before\n")
    runner.spawn(["sh", "-c", "echo out; echo err >&2"], log=log)
    _await(lambda: log.read_text() == "before\nout\nerr\n")


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [
        ("out\n", "first\nlast\n\n  \n", "last"),
        ("one\ntwo\n", "\n", "two"),
        (
            "",
            "tar: a: too long\ntar: Exiting with failure status due to previous errors\n",
            "tar: a: too long",
        ),
        ("", "", "it said nothing"),
    ],
)
def test_last_words_are_those_of_stderr_before_stdout(stdout: str, stderr: str, said: str) -> None:
    """Lines without a word are skipped."""
    assert Completed(1, stdout, stderr).said == said


def test_failed_command_is_named_with_status_and_last_words() -> None:
    """Long command lines are cut, and words with spaces are quoted."""
    argv = ["tar", "--file", "a b", "--more", "--and-more"]
    with pytest.raises(CommandFailed) as failed:
        checked(Completed(2, stderr="tar: a b: No such file\n"), argv)
    assert str(failed.value) == "tar --file 'a b' ended with 2: tar: a b: No such file"


def test_command_that_succeeded_is_let_through() -> None:
    """Its output is returned, whatever it said on stderr."""
    done = Completed(0, "out", "warning")
    assert checked(done, ["tar"]) is done
