"""What is killed: one verb on a store in a directory, in a process of its own."""

import os
import signal
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from spotrun.images import imagebox, keys, opening, push
from spotrun.images.address import Address
from spotrun.images.care import Policy
from spotrun.images.holds import Purpose
from spotrun.images.prune import prune
from spotrun.images.store import Store, file_sizes, new_hold
from tests.fakes.snapshots import IMAGE, manifest
from tests.fakes.stores import read, written

JOBS = ("one", "two")
_BLOCKS = [Random(it).randbytes(64 << 10) for it in range(12)]
_CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir"}


@dataclass(frozen=True, slots=True)
class Act:
    """One verb."""

    verb: str
    number: int
    """What a push stores and a prune keeps depends on it."""
    address: Address
    new_key_file: str
    folder: Path
    """Where it may write."""
    dies_at: int | None
    """Kill yourself before this change of the file system, the first one being 0."""

    @property
    def job(self) -> str:
        """The job that it is about."""
        return JOBS[self.number % len(JOBS)]

    @property
    def snapshot(self) -> str:
        """The one that a push makes."""
        return f"20261201T100000Z-{self.number:06x}"


def hasten(patch: pytest.MonkeyPatch) -> None:
    """Make packs small, so that there are many, keys cheap, and nothing durable but for a kill."""
    patch.setattr(push, "PACK_BYTES", 100_000)
    patch.setattr(push, "FRAME_BYTES", 100_000)
    patch.setattr(keys, "_COST", 1 << 4)
    patch.setattr(os, "fsync", lambda _: None)


def files_of(number: int) -> dict[str, bytes]:
    """Return the files of a snapshot, which have much in common with those of others."""
    random = Random(number)
    pages = b"".join(random.sample(_BLOCKS, 4))
    return {"pages": pages, "zeros": bytes(100_000), "log": random.randbytes(5000)}


def act(it: Act) -> None:
    """Do it, or die."""
    hasten(pytest.MonkeyPatch())
    if it.dies_at is not None:
        _die_at(it.dies_at, it.address.url)
    {"push": _push, "prune": _prune, "rotate": _rotate, "restore": _restore}[it.verb](it)


def _die_at(number: int, root: str) -> None:
    changes = count()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and arguments[2] & os.O_ACCMODE != os.O_RDONLY
        ours = (writes or event in _CHANGES) and str(arguments[0]).startswith(root)
        if ours and next(changes) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _push(it: Act) -> None:
    store = opening.open_store(it.address, make=False)
    running = store.begin(it.snapshot, it.job, "host")
    if running.image(IMAGE) is None:
        image = written(it.folder / "image", {"layer": _BLOCKS[0][:3000]})
        imagebox.put(store, running, IMAGE, image, threads=None, tell=None)
    folder = written(it.folder / "files", files_of(it.number))
    files = file_sizes(folder)
    content = running.store(folder, files, threads=None, tell=None)
    running.publish(manifest(job=it.job, snapshot=it.snapshot, files=files, content=content))
    running.end()


def _prune(it: Act) -> None:
    store = opening.open_store(it.address, make=False)
    prune(store, Policy(last=it.number % 4), host="host")


def _rotate(it: Act) -> None:
    opening.rotate_key(it.address, opening.secret_of(it.new_key_file))


def _restore(it: Act) -> None:
    store, hold = opening.open_store(it.address, make=False), new_hold(Purpose.PULL)
    store.read(hold, it.job, "host")
    fetch(store, it.job, store.ids(it.job)[-1][1], it.folder / "restored")
    store.end(hold)


def fetch(store: Store, job: str, snapshot: str, folder: Path) -> None:
    """Fetch a snapshot, and compare it with what was pushed."""
    store.fetch(store.load(job, snapshot), folder)
    assert read(folder) == files_of(int(snapshot.rpartition("-")[2], 16))
