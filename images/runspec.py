"""What a job is made of: its name, its image and its command line."""

import re
from dataclasses import dataclass
from typing import Final

JOB_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")
"""What Docker and Podman take as a container name."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image, identified by what does not change when it is renamed or pulled elsewhere."""

    name: str
    """As the user gave it."""
    id: str
    """Hex digest of the image's configuration."""
    digest: str | None
    """`name@sha256:…` under which a registry has it; None: no registry has it."""
    layers: tuple[str, ...]
    """Digests of the uncompressed layers, lowest first."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """`run`'s command line as the user gave it, without spotrun's own options."""

    options: tuple[str, ...]
    image: str
    command: tuple[str, ...]
