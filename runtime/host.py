"""This host with everything that spotrun uses of it, each behind its seam."""

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from spotrun.images.address import NO_KEY, Address
from spotrun.images.errors import UsageError
from spotrun.images.patience import USUAL, Patience
from spotrun.images.process import Runner
from spotrun.runtime import engines, jobs
from spotrun.runtime.clock import Clock, SystemClock
from spotrun.runtime.engine import Container, Engine
from spotrun.runtime.gpu import GpuDriver, NoGpu
from spotrun.runtime.oci import OciRuntime
from spotrun.runtime.paths import Paths
from spotrun.runtime.remembered import Remembering
from spotrun.runtime.runc import Runc

if TYPE_CHECKING:
    from spotrun.images.store import Store


LEASE_SECONDS: Final = 60.0
_HURRY: Final = 1.0
"""Seconds that a store gets in any case."""
_LEAST: Final = 5
"""Less is no time for a store that is slow to answer."""


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
    upload_limit: int | None = None
    """Bytes a second that go to a store at most, on the average."""
    lease_seconds: float = LEASE_SECONDS
    """For how long a job may run after its lease was last renewed."""
    patience: Patience = USUAL
    """With a store."""

    def store(self, address: Address | None = None, *, make: bool = False) -> "Store":
        """Return a store, by default this host's own, which is made if need be."""
        from spotrun.images.cache import PackCache
        from spotrun.images.opening import open_store
        from spotrun.images.throttle import Throttled

        if address is None or address == self.own_store:
            return open_store(self.own_store, make=True)
        store = open_store(address, make=make, patience=self.patience)
        if store.packs is store.backend:
            if self.upload_limit:
                store.packs = Throttled(store.packs, self.upload_limit)
            if address.remote:
                store.packs = PackCache(store.packs, self.paths.cache)
        return store

    def hurried(self, seconds: float) -> "Host":
        """Return this host with no more patience with a store than that."""
        least = min(self.patience.request, max(_HURRY, seconds))
        return replace(self, patience=Patience(least, least))

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

    def job_container(self, job: str) -> Container | None:
        """Return a job's container, and not one that others have given its name."""
        found = self.container(job)
        return found if found and found.job == job else None

    @property
    def own_store(self) -> Address:
        """The store that a job has when its user names none."""
        return Address(str(self.paths.store), NO_KEY)


def this_host() -> Host:
    """Return the real one, with the engine for new jobs; nothing is started or written yet."""
    paths = Paths.of()
    runner = Remembering(paths.answers)
    name = engines.choose(os.environ.get(engines.VARIABLE))
    chosen = engines.engine(name, runner, paths)
    return Host(
        paths=paths,
        runner=runner,
        clock=SystemClock(),
        engine=chosen,
        oci=Runc(runner, root=chosen.runc_root),
        gpu=NoGpu(),
        threads=_threads(os.environ.get("SPOTRUN_THREADS")),
        lease_seconds=_seconds(os.environ.get("SPOTRUN_LEASE_SECONDS")),
    )


def _seconds(given: str | None) -> float:
    if given is None:
        return LEASE_SECONDS
    if not given.isdecimal() or int(given) < _LEAST:
        raise UsageError(
            message=f"SPOTRUN_LEASE_SECONDS is {given!r}, not a number from {_LEAST} on"
        )
    return float(given)


def _threads(given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isdecimal() or not int(given):
        raise UsageError(message=f"SPOTRUN_THREADS is {given!r}, not a number of threads")
    return int(given)
