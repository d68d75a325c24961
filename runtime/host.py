"""This host with everything that spotrun uses of it, each behind its seam."""

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spotrun.images.address import NO_KEY, Address
from spotrun.images.errors import UsageError
from spotrun.images.process import Runner, SystemRunner
from spotrun.runtime import engines, jobs
from spotrun.runtime.clock import Clock, SystemClock
from spotrun.runtime.engine import Container, Engine
from spotrun.runtime.gpu import GpuDriver, NoGpu
from spotrun.runtime.oci import OciRuntime
from spotrun.runtime.paths import Paths
from spotrun.runtime.runc import Runc

if TYPE_CHECKING:
    from spotrun.images.store import Store


@dataclass(frozen=True, slots=True)
class Host:
    """The seams of one host."""

    paths: Paths
    runner: Runner
    clock: Clock
    engine: Engine
    """That of the job in question, or of new jobs."""
    oci: OciRuntime
    """With that engine's containers."""
    gpu: GpuDriver
    threads: int | None = None
    """How many may store a snapshot while the job goes on; None: half as many as processors."""

    def store(self, address: Address | None = None, *, make: bool = False) -> "Store":
        """Return a store, by default this host's own, which is made if need be."""
        from spotrun.images.cache import PackCache
        from spotrun.images.opening import open_store

        if address is None or address == self.own_store:
            return open_store(self.own_store, make=True)
        store = open_store(address, make=make)
        if address.remote and store.packs is store.backend:
            store.packs = PackCache(store.backend, self.paths.cache)
        return store

    def on(self, engine: str) -> "Host":
        """Return this host with another engine."""
        if engine == self.engine.name:
            return self
        other = engines.engine(engine, self.runner, self.paths)
        return replace(self, engine=other, oci=Runc(self.runner, root=other.runc_root))

    def of(self, job: str) -> "Host":
        """Return this host with the engine of a job; one that is not known here is a new one."""
        record = jobs.load(self.paths, job)
        return self.on(record.engine) if record else self

    def container(self, job: str) -> Container | None:
        """Return a job's container, or one by its own id; None: this engine has none."""
        record = jobs.load(self.paths, job)
        return self.engine.find(record.container if record and record.container else job)

    @property
    def own_store(self) -> Address:
        """The store that a job has when its user names none."""
        return Address(str(self.paths.store), NO_KEY)


def this_host(engine: str | None = None) -> Host:
    """Return the real one, for new jobs with that engine; nothing is started or written yet."""
    paths, runner = Paths.of(), SystemRunner()
    name = engines.choose(engine or os.environ.get(engines.VARIABLE))
    chosen = engines.engine(name, runner, paths)
    return Host(
        paths=paths,
        runner=runner,
        clock=SystemClock(),
        engine=chosen,
        oci=Runc(runner, root=chosen.runc_root),
        gpu=NoGpu(),
        threads=_threads(os.environ.get("SPOTRUN_THREADS")),
    )


def _threads(given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isdecimal() or not int(given):
        raise UsageError(message=f"SPOTRUN_THREADS is {given!r}, not a number of threads")
    return int(given)
