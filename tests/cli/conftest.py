"""The command line in this process, on a host in memory."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spotrun.cli import doctor, opened
from spotrun.cli.main import main
from spotrun.images.logfile import LogLine
from spotrun.runtime import engines
from tests.fakes.engine import Ended
from tests.fakes.host import FakeHost, fake_host

TALK = ("talk",)
"""A container's command that writes to both streams and ends with 7."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a command line ended with and wrote."""

    status: int
    out: str
    err: str

    @property
    def envelope(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        (line,) = self.out.splitlines()
        document: dict[str, Any] = json.loads(line)
        return document


Cli = Callable[..., Said]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """Give the host that the command line works on, as root."""
    lines = (LogLine("stdout", b"out\n"), LogLine("stderr", b"err\n"))
    made = fake_host(tmp_path, programs={TALK: Ended(lines, 7)})
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(engines, "program", lambda name: name == "podman")
    for module in (opened, doctor):
        monkeypatch.setattr(module, "this_host", lambda: made.host)
    return made


@pytest.fixture
def cli(fake: FakeHost, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:  # noqa: ARG001
    """Give a function that runs one command line to its exit."""
    handler = signal.getsignal(signal.SIGTERM)

    def run(*words: str) -> Said:
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        return Said(int(ended.value.code or 0), out, err)

    yield run
    signal.signal(signal.SIGTERM, handler)
