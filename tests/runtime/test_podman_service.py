"""What Podman's API refuses becomes an error of ours, by what it means and not by its number."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from threading import Thread

import pytest

from spotrun.images.errors import EngineError, NotHere
from spotrun.images.process import Completed, SystemRunner
from spotrun.runtime import podman_service
from spotrun.runtime.paths import Paths
from spotrun.runtime.podman import Podman
from tests.fakes.runner import ScriptedRunner


class _Refusing(BaseHTTPRequestHandler):
    """Answers each request by an internal error, as Podman does."""

    said = ""

    def do_GET(self) -> None:
        """Refuse."""
        body = json.dumps({"cause": "x", "message": self.said, "response": 500}).encode()
        self.send_response(500)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        """Have no address, as a unix socket has none."""
        return ""

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@pytest.fixture
def podman(tmp_path: Path) -> Iterator[Podman]:
    """Give an engine whose service refuses everything."""
    paths = Paths(state=tmp_path, run=tmp_path, memory=tmp_path)
    with ThreadingUnixStreamServer(str(paths.run / "podman.sock"), _Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield Podman(SystemRunner(), paths)
        server.shutdown()


def test_container_that_goes_while_it_is_looked_at_is_not_here(
    podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Podman had found it and does not find it in its database any more: no fault of the engine."""
    gone = "no container with ID 9bf5 found in database: no such container"
    monkeypatch.setattr(_Refusing, "said", gone)
    assert podman.find("job") is None
    with pytest.raises(NotHere, match="no such container"):
        podman.start("job")


def test_any_other_refusal_is_no_sign_that_the_container_has_gone(
    podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a job that runs would be taken for one that does not."""
    monkeypatch.setattr(_Refusing, "said", "database is locked")
    with pytest.raises(EngineError, match="database is locked") as refused:
        podman.find("job")
    assert not isinstance(refused.value, NotHere)


def test_service_that_ends_just_as_it_is_found_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends when it has been idle, and may do so between a look and the first request."""
    own = tmp_path / "podman.sock"
    answers = iter([False, True, False, False, False, True])
    monkeypatch.setattr(podman_service, "_answers", lambda _: next(answers))
    start = ("podman", "system", "service", "--time=10", f"unix://{own}")
    runner = ScriptedRunner({start: Completed(0)})
    paths = Paths(state=tmp_path, run=tmp_path, memory=tmp_path)
    with podman_service.client(runner, paths):
        assert runner.calls == [start]
