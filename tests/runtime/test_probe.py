"""What proves that a restored job is well is asked until it says so, for a minute."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from pathlib import Path
from time import monotonic
from typing import NoReturn

import pytest

from spotrun.images.errors import EngineError, UsageError
from spotrun.images.logfile import LogLine
from spotrun.images.process import Completed, SystemRunner
from spotrun.images.runspec import RunSpec
from spotrun.runtime import probe
from spotrun.runtime.engine import Container
from spotrun.runtime.processes import Thread
from tests.fakes.engine import Ended
from tests.fakes.host import FakeHost, fake_host
from tests.fakes.living import until
from tests.fakes.oci import Processes

_EPOCH = datetime(2026, 12, 1, tzinfo=UTC)
_LATER = datetime.now(UTC) + timedelta(days=1)
_LINES = (LogLine("stdout", b"epoch 1 done\n"), LogLine("stderr", b"caf\xc3\xa9 \xff ready\n"))


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """Give a host where nobody is patient, with a container that has said something."""
    monkeypatch.setattr(probe, "_PATIENCE", 0.2)
    monkeypatch.setattr(probe, "_MOMENT", 0.5)
    monkeypatch.setattr(probe, "_GLANCE", 0.02)
    monkeypatch.setattr(probe, "_PAUSE", 0.01)
    fake = fake_host(tmp_path, script={}, programs={("talk",): Ended(_LINES)})
    image = fake.engine.add_image("busybox", b"layer").name
    fake.engine.start(fake.engine.create(["--name=job", image, "talk"]))
    return fake


@pytest.fixture
def job(fake: FakeHost) -> Container:
    """Give the container."""
    found = fake.engine.find("job")
    assert found
    return found


@contextmanager
def _listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


_SLEEP = ("sleep", "100")
_SPIN = ("sh", "-c", "while :; do :; done")
_STOP = ("sh", "-c", "kill -STOP $$")
_THREAD = (sys.executable, "-c", """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(100,)).start()
ctypes.CDLL(None).pthread_exit(None)
""")  # fmt: skip
"""Its first thread ends; the other one goes on."""


def _state(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def _doing(argv: Sequence[str], state: str) -> Iterator[subprocess.Popen[bytes]]:
    """Have a process that does something, and wait until it does."""
    with subprocess.Popen(argv) as process:
        try:
            until(lambda: _state(process) == state)
            yield process
        finally:
            process.kill()


def _has(fake: FakeHost, job: Container, *pids: int) -> None:
    fake.oci.containers[job.id] = Processes(pids=[*pids])


@pytest.mark.parametrize(
    ("argv", "state"),
    [(_SLEEP, "S"), (_SPIN, "R"), (_THREAD, "Z")],
    ids=["sleeps", "computes", "first thread ended"],
)
def test_job_that_waits_or_runs_lives(
    fake: FakeHost, job: Container, argv: tuple[str, ...], state: str
) -> None:
    """Whatever it is that it does."""
    with _doing(argv, state) as process:
        _has(fake, job, process.pid)
        assert probe.lives(fake.host, replace(job, pid=process.pid))


def test_job_that_is_stopped_lives_as_it_was_saved(fake: FakeHost, job: Container) -> None:
    """Else it could be saved, and never come back."""
    with _doing(_STOP, "T") as process:
        _has(fake, job, process.pid)
        assert probe.lives(fake.host, replace(job, pid=process.pid))


def test_job_lives_as_long_as_one_of_its_processes_does(
    fake: FakeHost, job: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the first one could run and is not seen to."""
    _has(fake, job, job.pid, job.pid + 1)
    found = {job.pid: {1: Thread("R", 7)}, job.pid + 1: {2: Thread("S", 0)}}
    monkeypatch.setattr(probe, "threads", found.__getitem__)
    assert probe.lives(fake.host, job)


def test_job_whose_first_process_is_dead_does_not_live(fake: FakeHost, job: Container) -> None:
    """Its others go with it, if they still can."""
    with _doing(("true",), "Z") as first, _doing(_SLEEP, "S") as other:
        _has(fake, job, first.pid, other.pid)
        assert not probe.lives(fake.host, replace(job, pid=first.pid))
        first.wait()
        assert not probe.lives(fake.host, replace(job, pid=first.pid))


def test_job_that_could_run_and_never_does_does_not_live(
    fake: FakeHost, job: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at again and again, for its host may be busy."""
    ticks = chain([7, 7, 7], repeat(8))
    _has(fake, job)
    monkeypatch.setattr(probe, "threads", lambda _: {1: Thread("R", next(ticks))})
    assert probe.lives(fake.host, job)
    assert not probe.lives(fake.host, job)


@pytest.mark.parametrize(
    "text",
    ["tcp:", "tcp:x", "tcp:0", "tcp:65536", "tcp:-1", "tcp:80/udp", "tcp", "tcp:127.0.0.1:80"],
)
def test_port_that_is_none_is_refused(text: str) -> None:
    """Before anything is run; what is not `tcp` is a command."""
    with pytest.raises(UsageError, match=r"--probe: '.*' is no port"):
        probe.check(text)


def test_pattern_that_is_none_is_refused() -> None:
    """With what is wrong with it."""
    with pytest.raises(UsageError, match=r"--probe: '\(' is no pattern: missing \)"):
        probe.check("log:(")


@pytest.mark.parametrize("text", ["tcp:1", "tcp:65535", "log:", "log:a:b", "healthcheck", "true"])
def test_probe_that_makes_sense_is_taken(text: str) -> None:
    """Nothing is asked yet."""
    probe.check(text)


@pytest.mark.skipif(os.geteuid() != 0, reason="to enter a network namespace is root's")
def test_port_is_looked_for_where_the_container_is(fake: FakeHost, job: Container) -> None:
    """Here in this process's network, which stands for the container's."""
    job, host = replace(job, pid=os.getpid()), replace(fake.host, runner=SystemRunner())
    with _listening() as port:
        assert probe.holds(host, job, f"tcp:{port}", _EPOCH)
    assert not probe.holds(host, job, f"tcp:{port}", _EPOCH)


def test_line_is_looked_for_in_what_the_job_has_said_since(fake: FakeHost, job: Container) -> None:
    """In bytes, whatever they are, on either stream, and anywhere in the line."""
    for pattern in ("epoch \\d+", "^epoch", "done$", "café", ""):
        assert probe.holds(fake.host, job, f"log:{pattern}", _EPOCH), pattern
    for pattern in ("^done", "Epoch", "done epoch"):
        assert not probe.holds(fake.host, job, f"log:{pattern}", _EPOCH), pattern
    assert not probe.holds(fake.host, job, "log:epoch", _LATER)


@pytest.mark.parametrize(("status", "held"), [(0, True), (1, False)])
def test_healthcheck_is_the_engines(tmp_path: Path, status: int, *, held: bool) -> None:
    """It is the engine that knows how it went."""
    fake = fake_host(tmp_path, programs={("sh", "-c", "curl localhost"): Ended(status=status)})
    image = fake.engine.add_image("busybox", b"layer").name
    found = fake.engine.find(fake.engine.create(["--health-cmd=curl localhost", image]))
    assert found
    assert probe.check("healthcheck")(fake.host, found, _EPOCH) is held


def test_healthcheck_that_there_is_none_of_is_an_error_at_once(
    fake: FakeHost, job: Container
) -> None:
    """No rung could ever hold by it."""
    with pytest.raises(UsageError, match="--probe=healthcheck: the container has no health check"):
        probe.holds(fake.host, job, "healthcheck", _EPOCH)


_CHECKED = {"Healthcheck": {"Test": ["CMD-SHELL", "curl localhost"]}}
_IMAGES: dict[str, object] = {
    "docker-with": {"Config": _CHECKED},
    "podman-with": {**_CHECKED, "Config": {}},
    "docker-without": {"Config": {"Env": []}},
    "podman-without": {"Config": {}},
    "switched-off": {"Config": {"Healthcheck": {"Test": ["NONE"]}}},
    "of-nothing": {"Config": None},
}
"""What `image inspect` shows of a health check, which Docker has elsewhere than Podman."""


@pytest.mark.parametrize(
    ("options", "image", "refused"),
    [
        ("", "docker-with", False),
        ("", "podman-with", False),
        ("", "docker-without", True),
        ("", "podman-without", True),
        ("", "switched-off", True),
        ("", "of-nothing", True),
        ("", "not-here-yet", False),
        ("--health-cmd=a", "docker-without", False),
        ("--healthcheck-command=a", "podman-without", False),
        ("--health-cmd=none", "docker-with", True),
        ("--no-healthcheck", "docker-with", True),
    ],
)
def test_healthcheck_that_there_will_be_none_of_is_refused(
    tmp_path: Path, options: str, image: str, *, refused: bool
) -> None:
    """Before the job has run for hours; of an image that is still to be pulled nothing is known."""
    argv = ("podman", "image", "inspect")
    script: dict[tuple[str, ...], Completed]
    script = {(*argv, it): Completed(0, json.dumps([found])) for it, found in _IMAGES.items()}
    host = fake_host(tmp_path, script={**script, (*argv, "not-here-yet"): Completed(125)}).host
    spec = RunSpec(tuple(options.split()), image, ())
    for wanted in (None, "tcp:80", "true"):
        probe.refuse(host, spec, wanted)
    with pytest.raises(UsageError, match="health") if refused else nullcontext():
        probe.refuse(host, spec, "healthcheck")


@pytest.mark.parametrize("status", [0, 1, 127])
def test_command_is_run_inside(fake: FakeHost, job: Container, status: int) -> None:
    """By a shell, whatever it consists of."""
    command = "curl -f localhost:80 && echo tcp:1"
    answer = Completed(status)
    fake.runner._script = {  # noqa: SLF001
        ("podman", "exec", job.id, "sh", "-c", command): answer
    }
    assert probe.holds(fake.host, job, command, _EPOCH) == (status == 0)


def test_probe_is_asked_until_it_holds(fake: FakeHost, job: Container) -> None:
    """A server takes a while to listen again."""
    answers = [Completed(1), Completed(1), Completed(0)]
    asked: list[tuple[str, ...]] = []

    def answer(argv: list[str]) -> Completed:
        asked.append(tuple(argv))
        return answers[len(asked) - 1]

    fake.runner._answer = answer  # type: ignore[method-assign, assignment] # noqa: SLF001
    assert probe.holds(fake.host, job, "true", _EPOCH)
    assert len(asked) == 3


def test_probe_that_does_not_hold_is_given_up(fake: FakeHost, job: Container) -> None:
    """After its time, and not sooner."""
    begun = monotonic()
    assert not probe.holds(fake.host, job, "log:never", _EPOCH)
    assert 0.2 <= monotonic() - begun < 2


def test_command_that_hangs_does_not_hold(fake: FakeHost, job: Container) -> None:
    """It is ended, and asked again."""

    def late(argv: list[str]) -> NoReturn:
        raise TimeoutError(argv[0])

    fake.runner._answer = late  # type: ignore[method-assign, assignment] # noqa: SLF001
    assert not probe.holds(fake.host, job, "sleep 1000", _EPOCH)


def test_engine_that_is_in_trouble_is_no_answer(fake: FakeHost, job: Container) -> None:
    """That is told, and the restore taken back."""
    fake.engine.remove("job")
    with pytest.raises(EngineError, match="no such container"):
        probe.holds(fake.host, job, "log:x", _EPOCH)


def test_what_asks_for_a_port_needs_nothing_of_the_image(fake: FakeHost, job: Container) -> None:
    """It is this host's Python that connects."""
    calls: list[tuple[str, ...]] = []

    def answer(argv: list[str]) -> Completed:
        calls.append(tuple(argv))
        return Completed(0)

    fake.runner._answer = answer  # type: ignore[method-assign, assignment] # noqa: SLF001
    assert probe.holds(fake.host, job, "tcp:80", _EPOCH)
    ((program, network, python, *_, port),) = calls
    assert (program, network) == ("nsenter", f"--net=/proc/{job.pid}/ns/net")
    assert (python, port) == (sys.executable, "80")
