"""What proves that a restored job is well is asked until it says so, for a minute."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import NoReturn

import pytest

from spotrun.images.errors import EngineError, UsageError
from spotrun.images.logfile import LogLine
from spotrun.images.process import Completed, SystemRunner
from spotrun.runtime import probe
from spotrun.runtime.engine import Container
from tests.fakes.engine import Ended
from tests.fakes.host import FakeHost, fake_host

_EPOCH = datetime(2026, 12, 1, tzinfo=UTC)
_LATER = datetime.now(UTC) + timedelta(days=1)
_LINES = (LogLine("stdout", b"epoch 1 done\n"), LogLine("stderr", b"caf\xc3\xa9 \xff ready\n"))


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """Give a host where nobody is patient, with a container that has said something."""
    monkeypatch.setattr(probe, "_PATIENCE", 0.2)
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


@pytest.mark.parametrize(
    ("said", "held"), [("healthy\n", True), ("starting\n", False), ("unhealthy\n", False)]
)
def test_healthcheck_is_the_engines(tmp_path: Path, said: str, *, held: bool) -> None:
    """It runs by itself, and is only asked how it went."""
    argv = ("podman", "inspect", "--format={{.State.Health.Status}}")
    fake = fake_host(tmp_path)
    image = fake.engine.add_image("busybox", b"layer").name
    container = fake.engine.create([image])
    made = fake_host(tmp_path / "b", script={(*argv, container): Completed(0, said)})
    found = fake.engine.find(container)
    assert found
    assert probe.check("healthcheck")(made.host, found, _EPOCH) is held


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
