"""What a job's last snapshots, on whatever hosts, tell of its next ones."""

from contextlib import suppress
from functools import cached_property
from typing import Final

from spotrun.images.care import Care
from spotrun.images.errors import SpotrunError
from spotrun.images.manifest import Manifest
from spotrun.runtime import chronicle, forecast, rhythm
from spotrun.runtime.forecast import Forecast
from spotrun.runtime.host import Host
from spotrun.runtime.processes import memory_of
from spotrun.runtime.tenure import Tenure

_COUNT: Final = 6
"""Snapshots that tell."""


class Past:
    """The last snapshots of a job that runs here."""

    def __init__(self, host: Host, noted: Tenure, care: Care) -> None:
        """Look for them; a store that does not answer tells of none."""
        self._host, self._care, self._noted = host, care, noted
        self._manifests: list[Manifest] = []
        with suppress(SpotrunError):
            store = host.store(noted.store)
            ids = store.committed(noted.job)[-_COUNT:]
            self._manifests = [store.load(noted.job, it) for it in ids]

    @cached_property
    def _mtbf(self) -> float:
        """Asked for once, and only where nobody has said how often the job is saved."""
        return chronicle.mtbf(self._host, self._noted.job, self._noted.store)

    @cached_property
    def earlier(self) -> frozenset[str]:
        """Ids of the snapshots of a time before the job began anew; StoreUnavailable and its like.

        They are its user's to remove: it may have begun anew by an error, a wrong probe for one.
        """
        store, job = self._host.store(self._noted.store), self._noted.job
        begun = chronicle.begun(store, job)
        return frozenset(it for it in store.committed(job) if store.load(job, it).epoch < begun)

    @property
    def newest(self) -> Manifest | None:
        """The one that was made last."""
        return self._manifests[-1] if self._manifests else None

    def add(self, manifest: Manifest) -> None:
        """Learn from another one."""
        self._manifests = [*self._manifests, manifest][-_COUNT:]

    def interval(self) -> float:
        """Return the seconds from one to the next."""
        fixed = rhythm.every(self._care.every)
        if fixed is not None:
            return fixed
        running = [it for it in self._manifests if it.left_running]
        frozen = max(map(chronicle.frozen, running), default=0.0)
        behind = max(map(chronicle.behind, running), default=0.0)
        overhead = self._care.max_overhead
        return rhythm.interval(frozen, self._mtbf, behind=behind, max_overhead=overhead)

    def foretell(self, container: str | None) -> Forecast:
        """Return how long a last one would take with the memory that the job has now."""
        memory = 0
        if container:
            with suppress(SpotrunError):
                memory = memory_of(self._host.oci.processes(container))
        return forecast.forecast(self._manifests, memory)
