"""A snapshot comes from a registry; every blob is proved to be what its digest says."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spotrun.images import pull
from spotrun.images.backends.directory import DirectoryBackend
from spotrun.images.errors import CommandFailed, SnapshotDamaged, SnapshotNotFound
from spotrun.images.manifest import Manifest
from spotrun.images.meter import Meter
from spotrun.images.oci import artefact, layer
from spotrun.images.oci.artefact import Artefact, NotASnapshot
from spotrun.images.oci.layer import NoLayer
from spotrun.images.oci.parallel import each
from spotrun.images.oci.registry import Registry
from spotrun.images.oci.send import described, root_of
from spotrun.images.pack import key_of
from spotrun.images.process import Runner
from spotrun.images.pull import Damaged
from spotrun.images.seal import Broken, Plain
from spotrun.images.store import Tell, file_sizes

_READERS: Final = 4
_ARCHIVE: Final = re.compile(r"trees/\d+\.tar")


@dataclass(frozen=True, slots=True)
class Received:
    """What has come."""

    manifest: Manifest
    """With the sizes of the files that lie here now; where else they are it does not say."""
    bytes: int
    """That were transferred."""


def look(registry: Registry) -> tuple[Artefact, Manifest]:
    """Return what an artefact consists of, and its snapshot's manifest, which is small."""
    reference = registry.reference
    raw = registry.manifest(reference.wanted)
    if raw is None:
        raise SnapshotNotFound(
            which=reference.wanted, store=f"{reference.registry}/{reference.repository}"
        )
    try:
        found = artefact.read(raw)
        manifest = described(registry, found)
    except (NotASnapshot, ValueError) as error:
        raise SnapshotDamaged(snapshot=reference, reason=error) from None
    if reason := _flaw(found, manifest):
        raise SnapshotDamaged(snapshot=reference, reason=reason)
    return found, manifest


def receive(
    registry: Registry,
    found: Artefact,
    manifest: Manifest,
    folder: Path,
    scratch: Path,
    *,
    runner: Runner,
    tell: Tell | None = None,
) -> Received:
    """Write the snapshot's files below `folder`."""
    scratch.mkdir(mode=0o700)
    packs = DirectoryBackend(scratch / "packs")
    packed = scratch / "layer.tar.zst"
    wanted = {packs.root / key_of(ref.id): found.packs[ref.id] for ref in manifest.content.packs}
    if found.files:
        wanted[packed] = found.files
    meter = Meter(sum(it.size for it in wanted.values()), tell)

    def fetch(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        registry.get(wanted[path].digest, wanted[path].size, path)
        meter.add(done=wanted[path].size, moved=wanted[path].size)

    each(_READERS, fetch, wanted)
    content, sizes = manifest.content, manifest.files
    try:
        pull.pull(packs, Plain(""), content, folder, sizes, meter=Meter(sum(sizes.values())))
        if root := root_of(manifest):
            (folder / root.archive).parent.mkdir(exist_ok=True)
            layer.unmake(runner, packed, folder / root.archive, scratch)
    except (Damaged, Broken, NoLayer, CommandFailed) as error:
        raise SnapshotDamaged(snapshot=registry.reference, reason=error) from error
    moved = sum(it.size for it in wanted.values())
    return Received(replace(manifest, files=file_sizes(folder)), moved)


def _flaw(found: Artefact, manifest: Manifest) -> str | None:
    """Return what in an artefact does not fit together, or None."""
    missing = {ref.id for ref in manifest.content.packs} - set(found.packs)
    root = root_of(manifest)
    if missing or bool(root) != bool(found.files):
        return "it lacks some of its layers"
    named = {tree.archive for tree in manifest.trees if tree is not root} | {manifest.log}
    if not named <= {*manifest.files, None}:
        return "it lacks some of its files"
    if root and not _ARCHIVE.fullmatch(root.archive):
        return f"its file {root.archive!r} lies elsewhere"
    return None
