"""Figures of a job's checkpoints and restores, from the samples of all rounds."""

from collections.abc import Sequence
from statistics import median
from typing import Final

from tests.bench.contenders import Run
from tests.bench.figures import MIB, Figure, Goal
from tests.bench.rounds import Samples

_EXPORT: Final = "podman … --export"
_IMPORT: Final = "podman … --import"
_DUMP: Final = "runc checkpoint to tmpfs"
_FIRST: Final = "its first snapshot"
_OF_PODMAN: Final = Goal(0.25)
_OF_DUMP: Final = Goal(1.8)
_FROZEN: Final = Goal(1.1)
_SHIM: Final = Goal(25, of_value=True)


def figures(samples: Samples) -> list[Figure]:
    """Return the figures in the order of the table."""
    checkpoint, again = _wall(samples.checkpoint), _wall(samples.checkpoint_again)
    restore, imported = _wall(samples.restore), median(samples.podman_import)
    export, dump = median(samples.podman_export), median(samples.runc_dump)
    frozen = median(run.frozen for run in samples.checkpoint_running)
    first, second = _sent(samples.checkpoint_running), _sent(samples.second_running)
    return [
        Figure("checkpoint_vs_podman_export", checkpoint, "s", export, _EXPORT, _OF_PODMAN),
        Figure("checkpoint_again_vs_podman_export", again, "s", export, _EXPORT, _OF_PODMAN),
        Figure("restore_vs_podman_import", restore, "s", imported, _IMPORT, _OF_PODMAN),
        Figure("checkpoint_vs_runc_dump", checkpoint, "s", dump, _DUMP, _OF_DUMP),
        Figure("checkpoint_again_vs_runc_dump", again, "s", dump, _DUMP, _OF_DUMP),
        Figure("frozen_vs_runc_dump", frozen, "s", dump, _DUMP, _FROZEN),
        Figure("second_snapshot_bytes", second, "MiB", first, _FIRST),
        _shim(samples),
    ]


def median_phases(runs: Sequence[Run]) -> dict[str, float]:
    """Return the median seconds of each phase."""
    return {name: median(run.phases[name] for run in runs) for name in runs[0].phases}


def _shim(samples: Samples) -> Figure:
    runc = median(samples.runc) * 1000
    over = median(samples.shim) * 1000 - runc
    return Figure("shim_ms_over_runc", over, "ms", runc, "runc state", _SHIM)


def _wall(runs: Sequence[Run]) -> float:
    return median(run.seconds for run in runs)


def _sent(runs: Sequence[Run]) -> float:
    return median(run.sent for run in runs) / MIB
