"""A snapshot goes into a registry: what the repository has already is not sent again."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spotrun.images import push
from spotrun.images.backends.directory import DirectoryBackend
from spotrun.images.errors import NotExportable, SnapshotDamaged
from spotrun.images.known import Known
from spotrun.images.manifest import Manifest, Tree, decode, encode
from spotrun.images.meter import Meter
from spotrun.images.oci import artefact, layer
from spotrun.images.oci.artefact import Artefact, Descriptor, NotASnapshot
from spotrun.images.oci.layer import Layer, NoLayer
from spotrun.images.oci.parallel import each
from spotrun.images.oci.registry import Registry, digest_of, digest_of_file
from spotrun.images.pack import Pack, PackRef, key_of
from spotrun.images.process import Runner
from spotrun.images.recipe import Content
from spotrun.images.seal import Broken, Plain
from spotrun.images.store import Tell, file_sizes

_NEIGHBOURS: Final = 32
"""Other tags that are looked at for snapshots of the same job."""
_SENDERS: Final = 4
_READERS: Final = 8


@dataclass(frozen=True, slots=True)
class Sent:
    """What a push into a registry came to."""

    digest: str
    """Of the artefact's manifest."""
    blobs: int
    """That were sent; the registry had the others."""
    bytes: int
    """Of those that were sent."""


@dataclass(frozen=True, slots=True)
class _Earlier:
    """What earlier snapshots have brought into the repository."""

    known: Known
    packs: dict[str, Descriptor]


@dataclass(frozen=True, slots=True)
class Blob:
    """One that an artefact consists of."""

    descriptor: Descriptor
    source: Path | bytes | None
    """None: the registry has it."""


@dataclass(frozen=True, slots=True)
class Packed:
    """An artefact that is yet to be sent."""

    document: bytes
    """Its manifest."""
    blobs: list[Blob]


def pack(
    registry: Registry,
    manifest: Manifest,
    folder: Path,
    scratch: Path,
    *,
    runner: Runner,
    tell: Tell | None = None,
) -> Packed:
    """Make an artefact of the snapshot whose files lie below `folder`, in a new folder."""
    scratch.mkdir(mode=0o700)
    earlier = _earlier(registry, manifest.job)
    root = root_of(manifest)
    files = _layer(runner, manifest, folder / root.archive, scratch) if root else None
    sizes = file_sizes(folder)
    if root:
        sizes.pop(root.archive)
    new = DirectoryBackend(scratch / "new")
    meter = Meter(sum(sizes.values()), tell)
    content = push.push(new, Plain(""), folder, sizes, known=earlier.known, meter=meter)
    described = encode(replace(manifest, files=sizes, content=content))
    blobs = [_blob(artefact.DESCRIPTION, described), *_packs(content, earlier, new.root)]
    if files:
        blobs.insert(0, Blob(Descriptor(layer.MEDIA_TYPE, files.digest, files.size), files.path))
    layers = [it.descriptor for it in blobs]
    config = artefact.config_of(manifest, files, layers)
    document = artefact.document_of(manifest, config, layers)
    return Packed(document, [*blobs, _blob(artefact.CONFIG, config)])


def send(registry: Registry, packed: Packed, *, tell: Tell | None = None) -> Sent:
    """Send what the registry lacks, then put the artefact under the tag."""
    meter = Meter(sum(it.descriptor.size for it in packed.blobs), tell)

    def put(blob: Blob) -> int:
        size, source = blob.descriptor.size, blob.source
        moved = size if source and registry.put(blob.descriptor.digest, source) else 0
        meter.add(done=size, moved=moved)
        return moved

    sent = each(_SENDERS, put, packed.blobs)
    digest = registry.publish(packed.document, registry.reference.wanted)
    return Sent(digest, sum(map(bool, sent)), sum(sent))


def root_of(manifest: Manifest) -> Tree | None:
    """Return the tree of the container's changed files; None: it has none."""
    return next((tree for tree in manifest.trees if tree.kind == "rootfs"), None)


def _layer(runner: Runner, manifest: Manifest, archive: Path, scratch: Path) -> Layer:
    try:
        return layer.make(runner, archive, scratch)
    except NoLayer as error:
        raise NotExportable(snapshot=manifest.snapshot, verb="pushed", reason=error) from error


def _earlier(registry: Registry, job: str) -> _Earlier:
    """Learn which chunks the job's other snapshots in the repository have."""
    wanted = registry.reference.wanted
    tags = [wanted, *[tag for tag in registry.tags() if tag != wanted][-_NEIGHBOURS:]]
    found: dict[str, tuple[PackRef, Descriptor]] = {}
    for there in each(_READERS, lambda tag: _described(registry, tag, job), tags):
        found.update({ref.id: (ref, it) for ref, it in there})
    tails = each(_READERS, lambda it: _tail(registry, *it), found.values())
    packs = [pack for pack in tails if pack]
    known = Known()
    for pack in packs:
        known.learn(pack)
    return _Earlier(known, {pack.ref.id: found[pack.ref.id][1] for pack in packs})


def _described(registry: Registry, tag: str, job: str) -> list[tuple[PackRef, Descriptor]]:
    """Return the packs of a snapshot of that job; what is anything else has none for us."""
    with suppress(NotASnapshot, SnapshotDamaged, ValueError):
        raw = registry.manifest(tag)
        found = artefact.read(raw) if raw else None
        if found and found.job == job:
            refs = described(registry, found).content.packs
            return [(ref, found.packs[ref.id]) for ref in refs if ref.id in found.packs]
    return []


def described(registry: Registry, found: Artefact) -> Manifest:
    """Return spotrun's own manifest of an artefact; ValueError says what is wrong with it."""
    it = found.description
    return decode(registry.small(it.digest, it.size, artefact.MOST_DESCRIPTION))


def _tail(registry: Registry, ref: PackRef, there: Descriptor) -> Pack | None:
    """Return what a pack in the registry has, if it is as its end says."""
    if there.size != ref.size:
        return None
    tail = registry.part(there.digest, ref.size - ref.tail, ref.tail, ref.size)
    with suppress(Broken):
        return Pack(Plain(""), ref, tail or b"")
    return None


def _packs(content: Content, earlier: _Earlier, new: Path) -> Iterator[Blob]:
    for ref in content.packs:
        if ref.id in earlier.packs:
            yield Blob(earlier.packs[ref.id], None)
        else:
            path = new / key_of(ref.id)
            named = {artefact.PACK_ID: ref.id}
            found = Descriptor(artefact.PACK, digest_of_file(path), ref.size, named)
            yield Blob(found, path)


def _blob(media_type: str, raw: bytes) -> Blob:
    return Blob(Descriptor(media_type, digest_of(raw), len(raw)), raw)
