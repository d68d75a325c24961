"""Podman's API service: found, or started for as long as it is used."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from spotrun.images.errors import EngineError, NotHere
from spotrun.images.process import Runner
from spotrun.runtime.paths import Paths

if TYPE_CHECKING:
    from podman import PodmanClient

_SYSTEMD_SOCKET: Final = Path("/run/podman/podman.sock")
_IDLE_SECONDS: Final = 10
"""How long a service that spotrun started outlives its last request."""
_START_SECONDS: Final = 20


@contextmanager
def client(runner: Runner, paths: Paths) -> "Iterator[PodmanClient]":
    """Yield a client of the service; what the API refuses becomes NotHere or EngineError."""
    from podman import PodmanClient
    from podman.errors import APIError, ImageNotFound, NotFound, PodmanError

    with closing(PodmanClient(base_url=f"unix://{_socket(runner, paths)}")) as opened:
        try:
            yield opened
        except (NotFound, ImageNotFound) as error:
            raise NotHere(engine="podman", reason=error.explanation or error) from error
        except APIError as error:
            raise EngineError(engine="podman", reason=error.explanation or error) from error
        except (PodmanError, OSError) as error:
            raise EngineError(engine="podman", reason=error) from error


def output(api: "PodmanClient", container: str, *, follow: bool) -> Iterator[tuple[bytes, bytes]]:
    """Yield pieces of a container's stdout and stderr; one of the two is empty."""
    from podman.api import stream_frames

    path = f"/containers/{container}/logs"
    params = {"stdout": True, "stderr": True, "follow": follow}
    response = api.api.get(path, params=params, stream=True)
    with closing(response):
        response.raise_for_status()
        frames = cast(
            "Iterator[tuple[bytes | None, bytes | None]]", stream_frames(response, demux=True)
        )
        for out, err in frames:
            yield out or b"", err or b""


def _socket(runner: Runner, paths: Paths) -> Path:
    if _answers(_SYSTEMD_SOCKET):
        return _SYSTEMD_SOCKET
    own = paths.run / "podman.sock"
    if _answers(own):
        return own
    own.unlink(missing_ok=True)
    argv = ["podman", "system", "service", f"--time={_IDLE_SECONDS}", f"unix://{own}"]
    log = paths.run / "podman.log"
    runner.spawn(argv, log=log)
    waiting = Retrying(
        retry=retry_if_result(lambda answered: not answered),
        stop=stop_after_delay(_START_SECONDS),
        wait=wait_fixed(0.02),
    )
    try:
        waiting(_answers, own)
    except RetryError:
        reason = f"its service does not answer after {_START_SECONDS} s"
        raise EngineError(engine="podman", reason=reason, log=log) from None
    return own


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
