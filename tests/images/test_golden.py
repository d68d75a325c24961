"""What was stored once is read for ever: a store of each format that there was."""

import json
from pathlib import Path

import pytest

from spotrun.images import ledger
from spotrun.images.address import Address
from spotrun.images.backends.directory import DirectoryBackend
from spotrun.images.holds import Purpose
from spotrun.images.opening import open_in, secret_of
from spotrun.images.store import Store
from tests.fakes.snapshots import IMAGE
from tests.images.make_golden import FIRST, GOLDEN, SECOND, digests

_EXPECTED = json.loads((GOLDEN / "store-1-files.json").read_bytes())
_KEYS = {"store-1": None, "store-1-encrypted": str(GOLDEN / "store-1.key")}


@pytest.fixture(params=_KEYS)
def store(request: pytest.FixtureRequest) -> Store:
    """Give a golden store."""
    key = _KEYS[request.param]
    backend = DirectoryBackend(GOLDEN / request.param)
    return open_in(backend, secret_of(key) if key else None)


def test_snapshots_are_read(store: Store, tmp_path: Path) -> None:
    """Each file of each, bit for bit."""
    assert store.ids() == [("train", FIRST), ("train", SECOND)]
    for _, snapshot in store.ids():
        store.fetch(store.load("train", snapshot), tmp_path / snapshot)
        assert digests(tmp_path / snapshot) == _EXPECTED[snapshot]


def test_manifest_is_read(store: Store) -> None:
    """That of the newest; it builds upon the packs of the other one."""
    first, second = store.manifests()
    assert (second.snapshot, second.parent, second.epoch) == (SECOND, FIRST, 1)
    assert {ref.id for ref in first.content.packs} & {ref.id for ref in second.content.packs}


def test_image_is_read(store: Store, tmp_path: Path) -> None:
    """By its id."""
    stored = store.image(IMAGE)
    assert stored is not None
    store.fetch_image(stored, tmp_path)
    assert digests(tmp_path) == _EXPECTED[IMAGE.id]


def test_hold_is_read(store: Store) -> None:
    """Of a push that did not get to its end."""
    assert [held.id for held in store.holds.held()] == ["unfinished"]
    hold = store.holds.read("unfinished")
    assert hold is not None
    assert (hold.purpose, hold.job, hold.host, len(hold.packs)) == (
        Purpose.PUSH, "train", "host-a", 1
    )  # fmt: skip


def test_event_is_read(store: Store) -> None:
    """With all that it says."""
    assert ledger.jobs(store) == ["train"]
    (event,) = ledger.events(store, "train")
    assert (event.at, event.host, event.epoch, event.kind, event.snapshot) == (
        "2026-12-01T10:00:07.250+00:00", "host-a", 1, "snapshot", FIRST
    )  # fmt: skip
    assert (event.seconds, event.frozen_seconds, event.bytes) == (2.5, 0.5, 4711)
    assert (event.rung, event.reason, event.deadline) == (None, "", None)


def test_address_is_that_of_a_path(tmp_path: Path) -> None:
    """As users name a store and its key."""
    from spotrun.images.opening import open_store

    address = Address(str(GOLDEN / "store-1-encrypted"), _KEYS["store-1-encrypted"])
    store = open_store(address, make=False)
    store.fetch(store.find("train", None), tmp_path)
    assert digests(tmp_path) == _EXPECTED[SECOND]
