"""Which snapshot is meant by the name of a job or a snapshot."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from spotrun.images.address import Address
from spotrun.images.errors import SnapshotNotFound, StoreLocked, StoreMissing, StoreUnavailable
from spotrun.images.holds import Purpose
from spotrun.images.manifest import SNAPSHOT_ID, Manifest
from spotrun.images.store import Store, new_hold
from spotrun.runtime import jobs
from spotrun.runtime.host import Host

_CLOSED: Final = (StoreMissing, StoreLocked, StoreUnavailable)
"""What must not keep a snapshot from being found in another store."""


def snapshot(host: Host, which: str, address: Address | None) -> tuple[Store, Manifest]:
    """Return a snapshot by its id, or a job's newest, and its store.

    Without an address it is looked for where this host's jobs have theirs.
    """
    if not SNAPSHOT_ID.fullmatch(which):
        store = host.store(store_of(host, which, address))
        return store, store.find(which, None)
    for candidate in [address] if address else _stores(host):
        with suppress(*([] if address else _CLOSED)):
            store = host.store(candidate)
            job = next((job for job, found in store.ids() if found == which), None)
            if job:
                return store, store.load(job, which)
    raise SnapshotNotFound(which=which, store=address.url if address else "this host's stores")


def store_of(host: Host, job: str | None, address: Address | None) -> Address | None:
    """Return the store that is given, or a job's own; None: this host's."""
    record = jobs.load(host.paths, job) if job and address is None else None
    return record.store if record else address


@contextmanager
def held(store: Store, job: str) -> Iterator[None]:
    """Keep what is read of a store from being deleted meanwhile."""
    hold = new_hold(Purpose.PULL)
    store.read(hold, job, platform.node())
    try:
        yield
    finally:
        with suppress(StoreUnavailable):  # then it lapses by itself
            store.end(hold)


def _stores(host: Host) -> list[Address]:
    known = [record.store for record in jobs.all_records(host.paths)]
    return list(dict.fromkeys([host.own_store, *known]))
