"""This host with everything that spotrun uses of it, each behind its seam."""

import os
from dataclasses import dataclass

from spotrun.images.cache import PackCache
from spotrun.images.errors import UsageError
from spotrun.images.opening import NO_KEY, Address, open_store
from spotrun.images.process import Runner, SystemRunner
from spotrun.images.store import Store
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
    threads: int | None = None
    """How many may store a snapshot while the job goes on; None: half as many as processors."""

    def store(self, address: Address | None = None, *, make: bool = False) -> Store:
        """Return a store, by default this host's own, which is made if need be."""
        if address is None or address == self.own_store:
            return open_store(self.own_store, make=True)
        store = open_store(address, make=make)
        if address.remote and store.packs is store.backend:
            store.packs = PackCache(store.backend, self.paths.cache)
        return store

    @property
    def own_store(self) -> Address:
        """The store that a job has when its user names none."""
        return Address(str(self.paths.store), NO_KEY)


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
        threads=_threads(os.environ.get("SPOTRUN_THREADS")),
    )


def _threads(given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isdecimal() or not int(given):
        raise UsageError(message=f"SPOTRUN_THREADS is {given!r}, not a number of threads")
    return int(given)
