"""Figures of storing: the same two dumps by spotrun and by restic, each in its own processes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from tests.bench import child
from tests.bench.dumps import Dumps
from tests.bench.figures import MIB, Figure, Goal
from tests.bench.inside.told import Told
from tests.bench.restic import Restic
from tests.lab.host import Host

ROUNDS: Final = 3
_PLACE: Final = "/var/lib/containers/bench"
"""On the disk of the host."""
_PULLED: Final = "/run/bench-pulled"
_KEY: Final = {"SPOTRUN_KEY": "a secret of more than sixteen bytes"}
_RESTIC: Final = "restic's second backup"
_SMALLER: Final = Goal(1)


@dataclass(slots=True)
class _Samples:
    """One entry a round: seconds of whole processes, and bytes on the disk."""

    plain: list[Told] = field(default_factory=list)
    keyed: list[Told] = field(default_factory=list)
    pulled: list[Told] = field(default_factory=list)
    ours: list[tuple[float, int]] = field(default_factory=list)
    restic: list[tuple[float, int]] = field(default_factory=list)
    """Time and size of the second snapshot."""


def measure(host: Host, dumps: Dumps) -> list[Figure]:
    """Return the figures in the order of the table."""
    samples, restic = _Samples(), Restic(host, f"{_PLACE}/restic")
    host.run(["mkdir", _PLACE])
    turns: list[Callable[[], None]] = [
        lambda: _plain(host, dumps, samples),
        lambda: _keyed(host, dumps, samples),
        lambda: _restic(host, dumps, restic, samples),
    ]
    for number in range(ROUNDS):
        for turn in turns[number % len(turns) :] + turns[: number % len(turns)]:
            turn()
    return _figures(samples, dumps)


def _plain(host: Host, dumps: Dumps, samples: _Samples) -> None:
    store = f"{_PLACE}/plain"
    child.told(host, "store", "make", store)
    samples.plain.append(child.told(host, "store", "push", store, dumps.first))
    samples.pulled.append(child.told(host, "store", "pull", store, _PULLED))
    host.run(["rm", "-r", store, _PULLED])


def _keyed(host: Host, dumps: Dumps, samples: _Samples) -> None:
    """Encrypt, as restic does."""
    store = f"{_PLACE}/keyed"
    child.told(host, "store", "make", store, env=_KEY)
    samples.keyed.append(child.told(host, "store", "push", store, dumps.first, env=_KEY))
    before = _size(host, store)
    seconds = child.timed(host, child.command("store", "push", store, dumps.second), _KEY)
    samples.ours.append((seconds, _size(host, store) - before))
    host.run(["rm", "-r", store])


def _restic(host: Host, dumps: Dumps, restic: Restic, samples: _Samples) -> None:
    restic.make()
    restic.store(dumps.first)
    before = _size(host, restic.place)
    seconds = restic.store(dumps.second)
    samples.restic.append((seconds, _size(host, restic.place) - before))
    restic.remove()


def _size(host: Host, folder: str) -> int:
    """Return the bytes of all files in a folder."""
    return int(host.run(["du", "--summarize", "--apparent-size", "-B1", folder]).stdout.split()[0])


def _figures(samples: _Samples, dumps: Dumps) -> list[Figure]:
    ours, restic = ([it[0] for it in them] for them in (samples.ours, samples.restic))
    sent, backed = ([it[1] / MIB for it in them] for them in (samples.ours, samples.restic))
    keyed, plain = (median(it.seconds for it in them) for them in (samples.keyed, samples.plain))
    sizes = ("MiB", dumps.bytes / MIB, "bytes of the dump")
    return [
        Figure("second_vs_restic_bytes", median(sent), "MiB", median(backed), _RESTIC, _SMALLER),
        Figure("second_vs_restic_seconds", median(ours), "s", median(restic), _RESTIC, _SMALLER),
        Figure("encrypt_cost", keyed, "s", plain, "the same push, not encrypted"),
        Figure("peak_memory_push", _peak(samples.plain), *sizes),
        Figure("peak_memory_pull", _peak(samples.pulled), *sizes),
    ]


def _peak(them: list[Told]) -> float:
    return median(it.peak for it in them) / MIB
