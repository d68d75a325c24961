"""What containerd knows of Docker's containers and images, where they are kept by it."""

import json
import platform
import shlex
from pathlib import Path
from typing import Any, Final

from spotrun.images.errors import EngineError
from spotrun.images.process import Runner, checked

_SOCKETS: Final = (
    Path("/run/docker/containerd/containerd.sock"),
    Path("/run/containerd/containerd.sock"),
)
"""Of a containerd that Docker started for itself, and of the host's."""
_UPPER: Final = "upperdir="
_SOURCE: Final = "containerd.io/distribution.source."
"""How a label begins that names a registry; its value has the repositories there, with commas."""
_ARCH: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""What Go calls the architectures."""


class Containerd:
    """The containerd that Docker uses, asked by its own client."""

    def __init__(self, runner: Runner, snapshotter: str) -> None:
        """Ask for snapshots of that snapshotter."""
        self._runner = runner
        self._snapshotter = snapshotter

    def upper(self, container: str) -> Path:
        """Return the upper directory of a container's overlay, which need not be mounted."""
        snapshots = ("snapshots", f"--snapshotter={self._snapshotter}")
        words = shlex.split(self._said(*snapshots, "mounts", "/nowhere", container))
        options = [option for word in words for option in word.split(",")]
        found = [it.removeprefix(_UPPER) for it in options if it.startswith(_UPPER)]
        if not found:
            raise EngineError(engine="containerd", reason=f"{self._snapshotter} is no overlay")
        return Path(found[0])

    def config(self, image: str) -> str:
        """Return the digest of the configuration that a manifest, or an index of some, names."""
        document: dict[str, Any] = json.loads(self._said("content", "get", image))
        for entry in document.get("manifests", ()):
            wanted = entry.get("platform") or {}
            if wanted.get("architecture") == _ARCH.get(platform.machine(), platform.machine()):
                return self.config(entry["digest"])
        if "config" not in document:
            raise EngineError(engine="containerd", reason=f"{image} has nothing for this machine")
        return str(document["config"]["digest"]).partition(":")[2]

    def sources(self, digest: str) -> frozenset[str]:
        """Return the repositories that a manifest was pulled from or pushed to."""
        found, registry = set(), ""
        for part in self._said("content", "ls", f"digest=={digest}").split()[-1].split(","):
            label, assigned, value = part.rpartition("=")
            if assigned:
                registry = label.removeprefix(_SOURCE) if label.startswith(_SOURCE) else ""
            if registry:
                found.add(f"{registry}/{value}")
        return frozenset(found)

    def _said(self, *arguments: str) -> str:
        socket = next((it for it in _SOCKETS if it.exists()), _SOCKETS[-1])
        argv = ["ctr", f"--address={socket}", "--namespace=moby", *arguments]
        return checked(self._runner.run(argv), argv).stdout
