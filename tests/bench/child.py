"""How the programs of `tests/bench/inside` are run on a lab host."""

import time
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from tests.bench.inside.told import Told
from tests.lab.host import Host

T = TypeVar("T")
PYTHON: Final = "/opt/spotrun/venv/bin/python"
_SECONDS: Final = 300


def command(module: str, *arguments: str) -> list[str]:
    """Return what runs a module of `tests/bench/inside`."""
    return [PYTHON, "-m", f"tests.bench.inside.{module}", *arguments]


def told(host: Host, module: str, *arguments: str, env: Mapping[str, str] | None = None) -> Told:
    """Run one in a process of its own, and return what it tells."""
    return answer(host, Told, module, *arguments, env=env)


def answer(
    host: Host, kind: type[T], module: str, *arguments: str, env: Mapping[str, str] | None = None
) -> T:
    """Run one that tells something else."""
    said = host.run(command(module, *arguments), timeout=_SECONDS, env=env).stdout
    return msgspec.json.decode(said, type=kind)


def timed(host: Host, argv: Sequence[str], env: Mapping[str, str] | None = None) -> float:
    """Run a command, which must succeed, and return its wall seconds."""
    start = time.monotonic()
    host.run(argv, timeout=_SECONDS, env=env)
    return time.monotonic() - start
