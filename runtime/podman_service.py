"""Podman's API service: found, or started for as long as it is used."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spotrun.images.errors import EngineError, NotHere
from spotrun.images.logfile import Excerpt, LogLine
from spotrun.images.process import Runner
from spotrun.runtime.frames import frames
from spotrun.runtime.paths import Paths

if TYPE_CHECKING:
    from podman import PodmanClient

_SYSTEMD_SOCKET: Final = Path("/run/podman/podman.sock")
_IDLE_SECONDS: Final = 10
"""How long a service that spotrun started outlives its last request."""
_START_SECONDS: Final = 20
_GONE: Final = "no such container"
"""What Podman calls an internal error if a container goes while it is inspected (ErrNoSuchCtr)."""


@contextmanager
def client(runner: Runner, paths: Paths) -> "Iterator[PodmanClient]":
    """Yield a client of the service; what the API refuses becomes NotHere or EngineError."""
    place, there = _started(runner, paths)  # before the import, which takes as long as the start
    from podman import PodmanClient
    from podman.errors import APIError, ImageNotFound, NotFound, PodmanError

    if there and not _answers(place):  # it had been idle for so long that it has ended just now
        place, _ = _started(runner, paths)
    _await(place, paths)
    with closing(PodmanClient(base_url=f"unix://{place}")) as opened:
        try:
            yield opened
        except (NotFound, ImageNotFound) as error:
            raise NotHere(engine="podman", reason=error.explanation or error) from error
        except APIError as error:
            said = str(error.explanation or error)
            kind = NotHere if _GONE in said else EngineError
            raise kind(engine="podman", reason=said) from error
        except (PodmanError, OSError) as error:
            raise EngineError(engine="podman", reason=error) from error


def output(
    api: "PodmanClient", container: str, *, follow: bool, part: Excerpt
) -> Iterator[LogLine]:
    """Yield pieces of a container's output."""
    path = f"/containers/{container}/logs"
    params = {"stdout": True, "stderr": True, "follow": follow, **part.query}
    response = api.api.get(path, params=params, stream=True)
    with closing(response):
        response.raise_for_status()
        yield from frames(response.raw)


def _started(runner: Runner, paths: Paths) -> tuple[Path, bool]:
    """Return the socket of a service, and whether it runs already or has just been started."""
    own = paths.run / "podman.sock"
    for place in (_SYSTEMD_SOCKET, own):
        if _answers(place):
            return place, True
    own.unlink(missing_ok=True)
    argv = ["podman", "system", "service", f"--time={_IDLE_SECONDS}", f"unix://{own}"]
    runner.spawn(argv, log=_log(paths))
    return own, False


def _await(place: Path, paths: Paths) -> None:
    from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

    waiting = Retrying(
        retry=retry_if_result(lambda answered: not answered),
        stop=stop_after_delay(_START_SECONDS),
        wait=wait_fixed(0.02),
    )
    try:
        waiting(_answers, place)
    except RetryError:
        reason = f"its service does not answer after {_START_SECONDS} s"
        raise EngineError(engine="podman", reason=reason, log=_log(paths)) from None


def _log(paths: Paths) -> Path:
    return paths.run / "podman.log"


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
