"""What `run` costs, by a program that ends at once."""

from statistics import median
from time import sleep
from typing import Final

from tests.bench.child import timed
from tests.bench.figures import Figure, Goal
from tests.lab.host import Engine, Host
from tests.lab.images import archive, name

_ROUNDS: Final = 15
_PAUSE: Final = 0.5
"""Seconds in which the engine cleans up behind a container, which is not the next one's cost."""
_GOAL: Final = Goal(1.2)
_TRUE: Final = ("--rm", name("busybox"), "sh", "-c", ":")


def measure(host: Host) -> list[Figure]:
    """Compare `spotrun run` with both engines' own; Docker is started for it."""
    podman = _of(host, "podman")
    host.use_docker({name("busybox"): archive("busybox")})
    return [podman, _of(host, "docker")]


def _of(host: Host, engine: Engine) -> Figure:
    own: list[float] = []
    spotrun: list[float] = []
    ways = (
        (own, [engine, "run", *_TRUE]),
        (spotrun, ["spotrun", "run", f"--engine={engine}", *_TRUE]),
    )
    for _ in range(_ROUNDS):
        for samples, argv in ways:
            samples.append(timed(host, argv))
            sleep(_PAUSE)
    own_ms, spotrun_ms = median(own) * 1000, median(spotrun) * 1000
    return Figure(f"run_true_vs_{engine}", spotrun_ms, "ms", own_ms, f"{engine} run", _GOAL)
