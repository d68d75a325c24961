"""The OCI runtime seam: it freezes, dumps and restores one container."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """How the processes of one container are to be dumped."""

    images: Path
    """Folder for the process images."""
    work: Path
    """Folder for logs and statistics."""
    criu_config: Path
    """The CRIU configuration file that the container's annotation names."""
    external: tuple[str, ...] = ()
    """What CRIU is not to save because it will be there, as criu(8) names it."""


class OciRuntime(Protocol):
    """One OCI runtime on this host.

    Callers may rely on: every method raises OciError with the cause in one sentence;
    `freeze`, `thaw` may be called in any state; a failed `dump` leaves the container frozen.
    """

    def version(self) -> str:
        """Return the runtime's name and version, like `runc 1.1.15`."""
        ...

    def status(self, container: str) -> str | None:
        """Return created, running, paused or stopped; None: it knows no such container."""
        ...

    def freeze(self, container: str) -> None:
        """Stop all processes of the container where they are."""
        ...

    def thaw(self, container: str) -> None:
        """Let a frozen container go on; one that runs or is gone is left alone."""
        ...

    def dump(self, container: str, options: DumpOptions, pass_fds: Sequence[int] = ()) -> None:
        """Write the process images of a frozen container, which stays frozen."""
        ...

    def processes(self, container: str) -> list[int]:
        """Return the pids, on this host, of all processes of the container."""
        ...
