"""Figures of a store of ten thousand snapshots in a directory: what lists and prunes take."""

from collections import defaultdict
from statistics import median
from typing import Final

from tests.bench import child
from tests.bench.contenders import inspected
from tests.bench.figures import MIB, Figure
from tests.bench.inside.told import Told
from tests.lab.host import Host

ROUNDS: Final = 3
_MADE: Final = "/var/lib/containers/bench-many"
_STORE: Final = f"{_MADE}-now"
_READ: Final = "a plain read of all manifests"


def measure(host: Host, container: str) -> list[Figure]:
    """Return the figures in the order of the table; the manifests are like that container's."""
    config = inspected(host, container, "{{.OCIConfigPath}}")
    made = child.told(host, "many", "make", _MADE, config)
    samples: dict[str, list[Told]] = defaultdict(list)
    for _ in range(ROUNDS):
        host.run(["cp", "--archive", _MADE, _STORE])
        for verb in ("read", "list", "prune"):
            samples[verb].append(child.told(host, "many", verb, _STORE))
        host.run(["rm", "-r", _STORE])
    host.run(["rm", "-r", _MADE])
    read = median(it.seconds for it in samples["read"])
    figures = [
        Figure(f"{verb}_10000_snapshots_s", _seconds(samples[verb]), "s", read, _READ)
        for verb in ("list", "prune")
    ]
    sizes = ("MiB", made.count / MIB, "bytes of all manifests")
    return figures + [
        Figure(f"peak_memory_{verb}", _peak(samples[verb]), *sizes) for verb in ("list", "prune")
    ]


def _seconds(them: list[Told]) -> float:
    return median(it.seconds for it in them)


def _peak(them: list[Told]) -> float:
    return median(it.peak for it in them) / MIB
