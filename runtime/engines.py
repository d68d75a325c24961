"""Which engine a job is on, and which one a new job goes to."""

import json
import os
from pathlib import Path
from typing import Final

from spotrun.images.errors import UsageError
from spotrun.images.process import Runner, program
from spotrun.runtime.engine import Engine
from spotrun.runtime.paths import Paths

RUNTIME: Final = "spotrun"
"""Name of the shim among the OCI runtimes of an engine."""
SOCKET: Final = Path("/var/run/docker.sock")
"""Docker's, by default."""
NAMES: Final = ("docker", "podman")
AUTO: Final = "auto"
VARIABLE: Final = "SPOTRUN_ENGINE"
_DAEMON: Final = Path("/etc/docker/daemon.json")


def engine(name: str, runner: Runner, paths: Paths) -> Engine:
    """Return an engine of this host by its name."""
    if name == "docker":
        from spotrun.runtime.docker import Docker

        return Docker(runner)
    from spotrun.runtime.podman import Podman

    return Podman(runner, paths)


def choose(given: str | None) -> str:
    """Return the engine for a new job: the one given, else the one that is here.

    Where both are, it is Docker if its daemon runs and was told of spotrun.
    """
    if given in NAMES:
        return str(given)
    if given not in {None, "", AUTO}:
        raise UsageError(message=f"{given!r} is no engine; it is docker, podman or auto")
    if not program("podman"):
        return "docker" if program("docker") else "podman"
    return "docker" if program("docker") and _ready() else "podman"


def left_open(given: str | None) -> bool:
    """Tell whether it was us who chose between two."""
    named = given or os.environ.get(VARIABLE)
    return named in {None, "", AUTO} and all(program(name) for name in NAMES)


def beside(name: str) -> str | None:
    """Return the other engine, if this host has it, too."""
    return next((it for it in NAMES if it != name and program(it)), None)


def _ready() -> bool:
    return SOCKET.is_socket() and docker_is_told()


def docker_is_told() -> bool:
    """Tell whether Docker's configuration file has the shim; one that makes no sense has not."""
    try:
        found = json.loads(_DAEMON.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and RUNTIME in (found.get("runtimes") or {})
