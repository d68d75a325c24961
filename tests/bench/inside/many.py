"""Runs on a lab host: a store of very many small snapshots, as JSON.

Usage: many make PLACE CONFIG: write it below PLACE; CONFIG is a container's `config.json`
       many read PLACE: read the files that manifests are, and nothing else
       many list PLACE: read all manifests, as `spotrun snapshots` does
       many prune PLACE: keep the last few of each job
"""

import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from spotrun.images.address import Address
from spotrun.images.care import Policy
from spotrun.images.manifest import Manifest, encode, new_snapshot_id
from spotrun.images.opening import open_store
from spotrun.images.pack import PackRef, key_of
from spotrun.images.prune import prune
from spotrun.images.recipe import Content
from spotrun.images.seal import seal_document
from spotrun.images.store import SNAPSHOTS
from tests.bench.inside.told import Told, tell, timed
from tests.fakes.snapshots import NOW, manifest

_JOBS: Final = 100
_SNAPSHOTS: Final = 100
"""Of each job."""
_KEPT: Final = 10
_PACKS: Final = 20
"""That a snapshot needs: one of its own, the others also its neighbours'."""
_EMPTY: Final = b"some pack: no prune reads it"


def main() -> None:
    """Do one of these."""
    verb, place, *rest = sys.argv[1:]
    verbs: dict[str, Callable[..., Told]] = {
        "make": _make,
        "read": _read,
        "list": _list,
        "prune": _prune,
    }
    tell(verbs[verb](Path(place), *rest))


def _make(place: Path, config: str) -> Told:
    """Write the files at once: a thousand pushes a second are nobody's use of a store."""
    store = open_store(Address(str(place)), make=True)
    spec: dict[str, Any] = json.loads(Path(config).read_bytes())
    with timed() as told:
        for number in range(_JOBS * _SNAPSHOTS):
            described = _manifest(number, spec)
            key = f"{SNAPSHOTS}{described.job}/{described.snapshot}"
            sealed = seal_document(store.seal, key, encode(described))
            _write(place / key, sealed)
            _write(place / key_of(described.content.packs[0].id), _EMPTY)
            told.count += len(sealed)
    return told


def _read(place: Path) -> Told:
    with timed() as told:
        for folder, _, names in os.walk(place / SNAPSHOTS):
            for name in names:
                Path(folder, name).read_bytes()
                told.count += 1
    return told


def _list(place: Path) -> Told:
    with timed() as told:
        store = open_store(Address(str(place)), make=False)
        told.count = sum(1 for _ in store.examined(store.ids()))
    return told


def _prune(place: Path) -> Told:
    with timed() as told:
        store = open_store(Address(str(place)), make=False)
        done = prune(store, Policy(last=_KEPT), host="bench")
        told.count = sum(not it.reasons for it in done.snapshots)
    if told.count != _JOBS * (_SNAPSHOTS - _KEPT) or not done.packs:
        raise SystemExit(f"prune has removed {told.count} snapshots and {done.packs} packs")
    return told


def _manifest(number: int, spec: dict[str, Any]) -> Manifest:
    """Return that of one of a job's snapshots, an hour apart."""
    job, at = divmod(number, _SNAPSHOTS)
    made = NOW + timedelta(hours=at)
    packs = tuple(_pack(job, it) for it in range(at, max(at - _PACKS, -1), -1))
    return manifest(
        job=f"job-{job}",
        snapshot=new_snapshot_id(made),
        created=made.isoformat(timespec="milliseconds"),
        oci_spec=spec,
        content=Content(packs, (0, 0, 1)),
    )


def _pack(job: int, number: int) -> PackRef:
    name = sha256(f"{job} {number}".encode()).hexdigest()
    return PackRef(name, size=len(_EMPTY), tail=len(_EMPTY), used=len(_EMPTY))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    main()
