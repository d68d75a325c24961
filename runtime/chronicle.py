"""What a host writes into the ledgers of its jobs; nothing fails by it."""

import platform
from contextlib import suppress
from typing import Any, Final

from spotrun.images import ledger
from spotrun.images.address import Address
from spotrun.images.errors import SpotrunError
from spotrun.images.ledger import Event
from spotrun.images.manifest import Manifest, PhaseRecord
from spotrun.images.store import Store
from spotrun.runtime import rhythm
from spotrun.runtime.host import Host

_FREEZE, _THAW, _STORE = "suspend GPU", "thaw", "store"
_OWN: Final = 256
"""Events of the job that tell how often it is interrupted; each is a request to the store."""
_FURTHER: Final = 4
"""How many times as many are read if these do not say when the job began."""
_OTHERS: Final = 16
"""Other jobs that do."""
_THEIRS: Final = 32
"""Events of each of them: most are snapshots, so that these are some hours."""


def write(
    host: Host,
    job: str,
    store: Address,
    kind: ledger.Kind,
    *,
    epoch: int,
    **details: Any,  # noqa: ANN401 # those of an event
) -> None:
    """Add an event, of now unless told when; a store that does not take it has other troubles."""
    now = host.clock.now().isoformat(timespec="milliseconds")
    event = Event(host=platform.node(), epoch=epoch, kind=kind, **{"at": now, **details})
    with suppress(SpotrunError):
        ledger.record(host.store(store), job, event)


def mtbf(host: Host, job: str, store: Address) -> float:
    """Return the mean seconds between interruptions, as far as the ledgers of a store tell.

    The job's own newest events are read, and some of the jobs that were heard of last: what runs
    elsewhere now is on hosts of the same kind, most likely.
    """
    histories: list[ledger.Summary] = []
    with suppress(SpotrunError):
        place = host.store(store)
        others = [it for it in ledger.lately(place) if it != job][:_OTHERS]
        for name, newest in [(job, _OWN), *((it, _THEIRS) for it in others)]:
            histories.append(ledger.summarise(ledger.read(place, name, newest).events))
    return rhythm.mtbf(histories)


def begun(store: Store, job: str) -> int:
    """Return the epoch in which a job began or began anew; 0: its ledger does not say it."""
    count = _OWN
    while True:
        found = ledger.read(store, job, count)
        epochs = [it.epoch for it in found.events if it.kind == "started"]
        if epochs or len(found.events) + found.unreadable < count:
            return max(epochs, default=0)
        count *= _FURTHER


def snapshot(host: Host, manifest: Manifest, store: Address) -> None:
    """Add that a snapshot was committed, with what it took."""
    write(
        host,
        manifest.job,
        store,
        "snapshot",
        epoch=manifest.epoch,
        at=manifest.created,
        snapshot=manifest.snapshot,
        seconds=sum(it.seconds for it in manifest.phases),
        frozen_seconds=frozen(manifest) if manifest.left_running else 0.0,
        bytes=sending(manifest).bytes,
    )


def sending(manifest: Manifest) -> PhaseRecord:
    """Return the phase in which a snapshot was sent."""
    return next((it for it in manifest.phases if it.name == _STORE), PhaseRecord(_STORE, 0.0, 0))


def frozen(manifest: Manifest) -> float:
    """Return for how many seconds a snapshot has frozen its job, to its thaw or its end."""
    names = [it.name for it in manifest.phases]
    if _FREEZE not in names:
        return 0.0
    begin, end = names.index(_FREEZE), names.index(_THAW) if _THAW in names else len(names)
    return sum(it.seconds for it in manifest.phases[begin:end])


def behind(manifest: Manifest) -> float:
    """Return the seconds in which it was stored while its job ran on."""
    names = [it.name for it in manifest.phases]
    after = names.index(_THAW) + 1 if _THAW in names else len(names)
    return sum(it.seconds for it in manifest.phases[after:])
