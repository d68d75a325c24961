"""Which snapshot is meant by the name of a job or a snapshot."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from spotrun.images.errors import SnapshotNotFound, StoreMissing
from spotrun.images.holds import Purpose
from spotrun.images.manifest import SNAPSHOT_ID, Manifest
from spotrun.images.opening import Address
from spotrun.images.store import Store, new_hold
from spotrun.runtime import jobs
from spotrun.runtime.host import Host


def snapshot(host: Host, which: str, address: Address | None) -> tuple[Store, Manifest]:
    """Return a snapshot by its id, or a job's newest, and its store.

    Without an address it is looked for where this host's jobs have theirs.
    """
    if not SNAPSHOT_ID.fullmatch(which):
        record = jobs.load(host.paths, which)
        store = host.store(address or (record.store if record else None), make=False)
        return store, store.find(which, None)
    for candidate in [address] if address else _stores(host):
        with suppress(StoreMissing):
            store = host.store(candidate, make=False)
            job = next((job for job, found in store.ids() if found == which), None)
            if job:
                return store, store.load(job, which)
    raise SnapshotNotFound(which=which, store=address.url if address else "this host's stores")


@contextmanager
def held(store: Store, job: str) -> Iterator[None]:
    """Keep what is read of a store from being deleted meanwhile."""
    hold = new_hold(Purpose.PULL)
    store.read(hold, job, platform.node())
    try:
        yield
    finally:
        store.end(hold)


def _stores(host: Host) -> list[Address]:
    known = [record.store for record in jobs.all_records(host.paths)]
    return list(dict.fromkeys([host.own_store, *known]))
