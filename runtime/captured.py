"""What the phases of a capture know of the job, and where its files are staged."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from spotrun.images.address import Address
from spotrun.images.care import Care
from spotrun.images.logformat import LogFormat
from spotrun.images.manifest import HostFacts, Kind, Tree
from spotrun.images.recipe import Content
from spotrun.images.runspec import ImageRef, RunSpec
from spotrun.runtime import scratch
from spotrun.runtime.transaction import Session, State

IMAGES: Final = "criu"
"""Folder of the process images."""


@dataclass(slots=True, kw_only=True)
class CaptureState(State):
    """What the phases of a capture know."""

    container: str
    """Its id."""
    snapshot: str
    store: Address
    left_running: bool
    last: bool = False
    """This host is about to go."""
    handover: bool = False
    kind: Kind = Kind.LIVE
    care: Care | None = None
    image: ImageRef
    run: RunSpec
    epoch: int
    parent: str | None
    pid: int
    """Of the container's first process."""
    bundle: str
    upper: str
    log: str | None
    log_format: LogFormat = LogFormat.KUBERNETES
    trouble: str = ""
    """Why the store cannot take the snapshot, once that is known."""
    volumes: list[Tree]
    """Trees to be made of volumes, `archive` still being the host's folder."""
    host: HostFacts | None = None
    """This host's facts, once they are known."""
    pids: list[int] = field(default_factory=list)
    memory: int = 0
    """Bytes of them before the freeze: to ask takes time that a frozen job does not have."""
    trees: list[Tree] = field(default_factory=list)
    copying: float = 0.0
    """Seconds that those took beside the dump."""
    files: dict[str, int] = field(default_factory=dict)
    content: Content | None = None
    """Where the files are, once they are stored."""


def spec_of(state: CaptureState) -> dict[str, Any]:
    """Return the container's OCI specification, as the OCI runtime was given it."""
    spec: dict[str, Any] = json.loads((Path(state.bundle) / "config.json").read_bytes())
    return spec


def staged(session: Session, state: CaptureState) -> Path:
    """Return the folder for its files."""
    return scratch.place(session.host.paths, state.snapshot)
