"""What a terminal, a pipe and signals do to an attached job is what they do under the engine.

Each case runs with the engine's own command and with spotrun in its place; both must show the
same.
"""

import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.conftest import Hosts
from tests.e2e.terminal import Terminal
from tests.lab.host import Engine, Host
from tests.lab.images import Image, name

pytestmark = pytest.mark.lab

_TRAP = """
trap 'echo heard' {signal}
trap 'N=1' USR2
echo ready
until [ $N ]; do sleep 0.05; done
exit 9
"""
"""Says each time that it gets the signal, and ends with 9 when it gets USR2."""


@dataclass(frozen=True)
class Way:
    """One of the two commands."""

    host: Host
    command: str
    """The engine's name, or `spotrun`."""

    def run(
        self, *words: str, stdin: str | None = None, check: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run one of its commands to the end."""
        return self.host.run([self.command, *words], stdin=stdin, check=check)

    def popen(self, *words: str) -> subprocess.Popen[str]:
        """Start one without a terminal."""
        return self.host.popen([self.command, *words])

    def terminal(self, *words: str) -> Terminal:
        """Start one in a terminal."""
        return Terminal(self.host, self.command, *words)

    def engines_own(self, *words: str) -> str:
        """Ask the engine itself."""
        return self.host.run([self.host.engine, *words]).stdout


def _ways(hosts: Hosts, engine: Engine, image: Image = "busybox") -> Iterator[Way]:
    """Yield both, each on a host of its own."""
    both = hosts(2, images=(image,), engine=engine)
    for command, host in zip((engine, "spotrun"), both, strict=True):
        yield Way(host, command)


def test_output_and_exit_code_are_the_containers(hosts: Hosts, engine: Engine) -> None:
    """So are the codes of what cannot be run; `--rm` leaves nothing."""
    image = name("busybox")
    expected = {
        (image, "sh", "-c", "echo out; echo err >&2; exit 7"): (7, "out\n"),
        ("--init", image, "sh", "-c", "kill -9 $$"): (137, ""),
        (image, "/etc/passwd"): (126, ""),
        (image, "no-such-command"): (127, ""),
        ("--pull=never", "localhost/absent:1"): (125, ""),
        ("--no-such-option", image): (125, ""),
    }
    for way in _ways(hosts, engine):
        for words, (status, out) in expected.items():
            done = way.run("run", "--rm", *words)
            assert (done.returncode, done.stdout) == (status, out), (way.command, words)
            assert bool(done.stderr) == (status != 137), (way.command, words)
            assert status != 127 or words[-1] in done.stderr, way.command
        assert way.engines_own("ps", "--all", "--quiet") == "", way.command


def test_stdin_is_the_containers_with_i_only(hosts: Hosts, engine: Engine) -> None:
    """What the pipe held comes out whole."""
    text = "".join(f"line {number}\n" for number in range(20_000))
    for way in _ways(hosts, engine):
        done = way.run("run", "--rm", "-i", name("busybox"), "cat", stdin=text)
        assert (done.returncode, done.stdout) == (0, text), way.command
        assert way.run("run", "--rm", name("busybox"), "cat", stdin=text).stdout == "", way.command


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signal_reaches_the_container_once(
    hosts: Hosts, engine: Engine, number: signal.Signals
) -> None:
    """It does what it likes with it, and its exit code is that of the command."""
    script = _TRAP.format(signal=number.name.removeprefix("SIG"))
    for way in _ways(hosts, engine):
        with way.popen("run", "--name=job", name("busybox"), "sh", "-c", script) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            way.host.signal(process, number)
            assert process.stdout.readline() == "heard\n", way.command
            way.host.signal(process, signal.SIGUSR2)
            assert process.stdout.read() == "", way.command
            assert process.wait(30) == 9, way.command


def test_signal_without_proxy_ends_the_command_alone(hosts: Hosts, engine: Engine) -> None:
    """The container goes on; the exit code is that of the engine's own command."""
    script = _TRAP.format(signal="TERM")
    statuses = []
    for way in _ways(hosts, engine):
        words = ("run", "--name=job", "--sig-proxy=false", name("busybox"), "sh", "-c", script)
        with way.popen(*words) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            way.host.signal(process, signal.SIGTERM)
            status = process.wait(30)
            statuses.append(status if status >= 0 else 128 - status)
        assert way.engines_own("ps", "--format={{.Names}}") == "job\n", way.command
    assert statuses[0] == statuses[1]


@pytest.mark.parametrize("tty", ["-it", "-i"])
def test_ctrl_c_reaches_the_container_once(hosts: Hosts, engine: Engine, tty: str) -> None:
    """By its own terminal, or by the one that the command is on."""
    script = _TRAP.format(signal="INT")
    for way in _ways(hosts, engine):
        terminal = way.terminal("run", tty, "--name=job", name("busybox"), "sh", "-c", script)
        terminal.wait_for("ready")
        terminal.type("\x03")
        terminal.wait_for("heard")
        way.run("kill", "--signal=USR2", "job", check=True)
        assert (terminal.end(), "heard" in terminal.shown) == (9, False), way.command


def test_attached_job_is_stopped_from_elsewhere(hosts: Hosts, engine: Engine) -> None:
    """By its stop signal, and if that is of no use, by KILL."""
    polite = "trap 'echo bye; exit 6' TERM; echo ready; while :; do sleep 0.05; done"
    stubborn = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    for way in _ways(hosts, engine):
        for script, left, status in ((polite, "bye\n", 6), (stubborn, "", 137)):
            words = ("run", "--rm", "--name=job", name("busybox"), "sh", "-c", script)
            with way.popen(*words) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                assert way.run("stop", "-t", "1", "job", check=True).stdout == "job\n"
                assert process.stdout.read() == left, way.command
                assert process.wait(30) == status, way.command


_SIZE = """
import os, signal
def show(*_):
    print("size", *os.get_terminal_size())
signal.signal(signal.SIGWINCH, show)
while input() != "end":
    show()
raise SystemExit(3)
"""


def test_window_is_as_large_as_the_terminal(hosts: Hosts, engine: Engine) -> None:
    """100 columns and 30 rows, and what it is made later."""
    for way in _ways(hosts, engine, "python"):
        terminal = way.terminal("run", "-it", "--rm", name("python"), "python3", "-c", _SIZE)
        terminal.type("\n")
        terminal.wait_for("size 100 30")
        terminal.resize(120, 40)
        terminal.wait_for("size 120 40")
        terminal.type("end\n")
        assert terminal.end() == 3, way.command


@pytest.mark.parametrize(
    ("options", "keys"), [((), "\x10\x11"), (("--detach-keys=ctrl-x,y",), "\x18y")]
)
def test_job_is_left_and_attached_to_again(
    hosts: Hosts, engine: Engine, options: tuple[str, ...], keys: str
) -> None:
    """Its shell does not notice; Docker's `attach` ends with its exit code, Podman's does not."""
    status = {"docker": 4, "podman": 0}[engine]
    for way in _ways(hosts, engine):
        words = ("-it", "--name=job", "-e", "N=1", name("busybox"), "sh")
        terminal = way.terminal("run", *options, *words)
        terminal.type("N=$((N + 41)); echo got $N\n")
        terminal.wait_for("got 42")
        terminal.press(keys)
        assert terminal.end() == 0, way.command
        assert way.engines_own("ps", "--format={{.Names}}") == "job\n", way.command
        terminal = way.terminal("attach", *options, "job")
        terminal.type("echo still $N\n")
        terminal.wait_for("still 42")
        terminal.type("exit 4\n")
        assert terminal.end() == status, way.command


def test_job_is_created_first_and_started_then(hosts: Hosts, engine: Engine) -> None:
    """`create` prints its id, `start` its name, or with -a and -i what it does."""
    for way in _ways(hosts, engine):
        made = way.run("create", "-i", "--name=job", name("busybox"), "sh", "-c", "cat; exit 5")
        assert re.fullmatch(r"[0-9a-f]{64}\n", made.stdout), way.command
        assert way.engines_own("inspect", "--format={{.State.Status}}", "job") == "created\n"
        done = way.run("start", "-a", "-i", "job", stdin="said\n")
        assert (done.returncode, done.stdout) == (5, "said\n"), way.command
        assert way.run("start", "job").stdout == "job\n", way.command


def test_detached_job_prints_its_id(hosts: Hosts, engine: Engine) -> None:
    """So does the file that `--cidfile` names."""
    for way in _ways(hosts, engine):
        words = ("-d", "--name=job", "--cidfile=/root/id", name("busybox"), "sleep", "1000")
        printed = way.run("run", *words).stdout
        assert re.fullmatch(r"[0-9a-f]{64}\n", printed), way.command
        assert way.host.path("/root/id").read_text() == printed.strip(), way.command
        again = way.run("run", *words)
        assert (again.returncode, again.stdout) == (125, ""), way.command
