"""A snapshot as an artefact of a registry: the documents it consists of.

    manifest    of an OCI image; its annotations say what it is (annotations.py)
    config      of an OCI image
    layer       the changed files, an ordinary layer upon the base image, which is not in it
    layer       spotrun's own manifest of the snapshot
    layers      packs (pack.py) with all else: process images, volumes, the log

Packs are those of a store without encryption, filled for this repository alone: what an earlier
snapshot of the same job has brought there is not brought again, and of what other jobs have in a
common pack of their store nothing gets there.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from spotrun.images.manifest import Manifest
from spotrun.images.oci import annotations, layer
from spotrun.images.oci.layer import Layer
from spotrun.images.oci.registry import MANIFEST, digest_of

TYPE: Final = "application/vnd.spotrun.snapshot.v1"
DESCRIPTION: Final = "application/vnd.spotrun.manifest.v1+json"
PACK: Final = "application/vnd.spotrun.pack.v1"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
PACK_ID: Final = "io.spotrun.pack"
MOST_DESCRIPTION: Final = 64 << 20
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_SCHEMA: Final = 2


class NotASnapshot(Exception):
    """What a registry has there is no snapshot, or not of a format that is known."""


class Descriptor(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A blob as a manifest names it."""

    media_type: str
    digest: str
    size: int
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class Document(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The manifest of an artefact."""

    schema_version: int
    media_type: str
    artifact_type: str
    config: Descriptor
    layers: list[Descriptor]
    annotations: dict[str, str]


class _Any(msgspec.Struct, rename="camel"):
    media_type: str = ""
    artifact_type: str = ""


@dataclass(frozen=True, slots=True)
class Artefact:
    """The layers of an artefact by what they are."""

    job: str
    files: Descriptor | None
    """The changed files; None: the container has none of its own."""
    description: Descriptor
    packs: dict[str, Descriptor]
    """By pack."""


def read(raw: bytes) -> Artefact:
    """Read a manifest, or raise NotASnapshot."""
    try:
        head = msgspec.json.decode(raw, type=_Any)
        if head.artifact_type != TYPE:
            what = "an index of images" if head.media_type == _INDEX else "an image"
            raise NotASnapshot(f"it is {what}, not a snapshot of spotrun")
        found = msgspec.json.decode(raw, type=Document)
    except msgspec.MsgspecError as error:
        raise NotASnapshot(f"its manifest makes no sense: {error}") from None
    by_type: dict[str, list[Descriptor]] = {}
    for it in found.layers:
        by_type.setdefault(it.media_type, []).append(it)
    files, descriptions = by_type.get(layer.MEDIA_TYPE, []), by_type.get(DESCRIPTION, [])
    if len(descriptions) != 1 or len(files) > 1:
        raise NotASnapshot("its manifest does not have the layers of a snapshot")
    packs = {it.annotations.get(PACK_ID, ""): it for it in by_type.get(PACK, [])}
    job = found.annotations.get(annotations.JOB, "")
    return Artefact(job, files[0] if files else None, descriptions[0], packs)


def config_of(manifest: Manifest, files: Layer | None, layers: list[Descriptor]) -> bytes:
    """Return the configuration of the image; only the files were compressed."""
    same = {files.digest: files.diff_id} if files else {}
    document = {
        "created": manifest.created,
        "architecture": annotations.architecture(manifest.host),
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [same.get(it.digest, it.digest) for it in layers]},
    }
    return msgspec.json.encode(document)


def document_of(manifest: Manifest, config: bytes, layers: list[Descriptor]) -> bytes:
    """Return the manifest of the artefact."""
    document = Document(
        schema_version=_SCHEMA,
        media_type=MANIFEST,
        artifact_type=TYPE,
        config=Descriptor(CONFIG, digest_of(config), len(config)),
        layers=layers,
        annotations=annotations.of(manifest),
    )
    return msgspec.json.encode(document)
