"""What is made of the samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench.contenders import Run
from tests.bench.rounds import Samples

_SHIM_GOAL = 25.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One comparison."""

    name: str
    value: float
    """Of spotrun."""
    unit: str
    against: float
    """Of the other."""
    other: str
    """What the other is, for people."""
    goal: float | None = None
    """What `value` is not to exceed."""

    @property
    def ratio(self) -> float:
        """Tell how many times the other's value spotrun's is."""
        return self.value / self.against


def of(samples: Samples) -> list[Figure]:
    """Return the figures in the order of the table."""
    checkpoint, restore = _wall(samples.checkpoint), _wall(samples.restore)
    frozen = median(run.frozen for run in samples.checkpoint_running)
    export, dump = median(samples.podman_export), median(samples.runc_dump)
    return [
        Figure("checkpoint_vs_podman_export", checkpoint, "s", export, "podman … --export"),
        Figure(
            "restore_vs_podman_import",
            restore,
            "s",
            median(samples.podman_import),
            "podman … --import",
        ),
        Figure("checkpoint_vs_runc_dump", checkpoint, "s", dump, "runc checkpoint to tmpfs"),
        Figure("frozen_vs_runc_dump", frozen, "s", dump, "runc checkpoint to tmpfs"),
        _shim(samples),
    ]


def median_phases(runs: Sequence[Run]) -> dict[str, float]:
    """Return the median seconds of each phase."""
    return {name: median(run.phases[name] for run in runs) for name in runs[0].phases}


def _shim(samples: Samples) -> Figure:
    runc = median(samples.runc)
    over = median(samples.shim) - runc
    return Figure(
        "shim_ms_over_runc", over * 1000, "ms", runc * 1000, "runc state", goal=_SHIM_GOAL
    )


def _wall(runs: Sequence[Run]) -> float:
    return median(run.seconds for run in runs)
