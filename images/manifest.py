"""The manifest: the JSON document that describes one snapshot, format 1.

Its shape is a contract; the golden example is `tests/images/golden/manifest-1.json`.
"""

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import msgspec

from spotrun.images.care import Care
from spotrun.images.recipe import Content
from spotrun.images.runspec import JOB_NAME, ImageRef, RunSpec

FORMAT: Final = 1
_TIME: Final = "%Y%m%dT%H%M%SZ"
SNAPSHOT_ID: Final = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


class Kind(StrEnum):
    """What a snapshot can bring back."""

    LIVE = "live"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What decides whether a process image of one host can go on on another."""

    hostname: str
    kernel: str
    arch: str
    cpu_flags: tuple[str, ...]
    cgroup_layout: str
    """`v2`, `v1` or `hybrid`."""
    criu: str
    oci_runtime: str
    """Name and version, like `runc 1.1.15`."""
    engine: str
    """Name and version, like `podman 5.4.2`."""


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """What one phase of the transaction took."""

    name: str
    seconds: float
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Tree:
    """One directory tree of the container, kept as a tar archive in the snapshot."""

    kind: str
    """`rootfs`: the overlay's upper directory as it is; `mount`: the content of a mount."""
    archive: str
    """Path in the snapshot."""
    destination: str
    """Path in the container."""
    volume: str | None = None
    """Name of the volume it is the content of, if the user named it."""
    identity: str | None = None
    """What told that volume from others of its name at the source."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything needed to judge and restore a snapshot, except the bulk data beside it."""

    snapshot: str
    job: str
    created: str
    """UTC, ISO 8601."""
    kind: Kind
    epoch: int
    """Grows by one with every restore of the job."""
    parent: str | None
    """The snapshot before this one in the job's life."""
    image: ImageRef
    run: RunSpec
    host: HostFacts
    oci_spec: dict[str, Any]
    """The container's `config.json` at the source."""
    trees: tuple[Tree, ...]
    log: str | None
    """Path of the container's log file in the snapshot; None: its log driver keeps none."""
    files: dict[str, int]
    """Every file of the snapshot: path and size in bytes."""
    content: Content
    """Where the bytes of the files are."""
    phases: tuple[PhaseRecord, ...] = ()
    copying: float = 0.0
    """Seconds of the copy of changed files, as far as it went on beside another phase."""
    left_running: bool = False
    handover: bool = False
    """Made by a migration, only to reach the target."""
    care: Care | None = None
    """How the job is looked after; None: it is saved when somebody says so."""
    format: int = FORMAT

    @property
    def bytes(self) -> int:
        """Size of all files of the snapshot together."""
        return sum(self.files.values())

    @property
    def memory_bytes(self) -> int:
        """Size of the process images: the memory that a restore will need."""
        return sum(size for path, size in self.files.items() if path.startswith("criu/pages-"))


def encode(manifest: Manifest) -> bytes:
    """Return the document, indented, keys in the order of the class."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode(raw: bytes) -> Manifest:
    """Read a document; ValueError says what is wrong with it and where."""
    version = msgspec.json.decode(raw, type=_Versioned).format
    if version != FORMAT:
        raise ValueError(f"format {version} is not known to this spotrun, which reads {FORMAT}")
    manifest = msgspec.json.decode(raw, type=Manifest)
    if not JOB_NAME.fullmatch(manifest.job) or not SNAPSHOT_ID.fullmatch(manifest.snapshot):
        raise ValueError("job or snapshot name has characters that names cannot have")
    return manifest


def new_snapshot_id(now: datetime, after: str | None = None) -> str:
    """Return an id that is unique without coordination, and sorts behind the one given.

    It sorts by time where clocks agree; `after` is the snapshot before, maybe of a faster clock.
    """
    second = now.astimezone(UTC).replace(microsecond=0)
    if after is not None:
        before = datetime.strptime(after[:16], _TIME).replace(tzinfo=UTC)
        second = max(second, before + timedelta(seconds=1))
    return f"{second:{_TIME}}-{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class _Versioned:
    format: int
