"""This host with everything that spotrun uses of it, each behind its seam."""

from dataclasses import dataclass
from pathlib import Path

from spotrun.images.process import Runner, SystemRunner
from spotrun.images.store import DirectoryStore
from spotrun.runtime.clock import Clock, SystemClock
from spotrun.runtime.engine import Engine
from spotrun.runtime.gpu import GpuDriver, NoGpu
from spotrun.runtime.oci import OciRuntime
from spotrun.runtime.paths import Paths
from spotrun.runtime.podman import Podman
from spotrun.runtime.runc import Runc


@dataclass(frozen=True, slots=True)
class Host:
    """The seams of one host."""

    paths: Paths
    runner: Runner
    clock: Clock
    engine: Engine
    oci: OciRuntime
    gpu: GpuDriver

    def store(self, place: str | None = None) -> DirectoryStore:
        """Return the store at a path, by default this host's own."""
        return DirectoryStore(Path(place) if place else self.paths.store)


def this_host() -> Host:
    """Return the real one; nothing is started or written yet."""
    paths, runner = Paths.of(), SystemRunner()
    return Host(
        paths=paths,
        runner=runner,
        clock=SystemClock(),
        engine=Podman(runner, paths),
        oci=Runc(runner),
        gpu=NoGpu(),
    )
