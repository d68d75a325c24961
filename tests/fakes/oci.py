"""An OCI runtime in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from spotrun.images.errors import OciError
from spotrun.runtime.oci import DumpOptions


@dataclass(slots=True)
class Processes:
    """What the runtime knows of one container."""

    status: str = "running"
    pids: list[int] = field(default_factory=list)


class FakeOci:
    """Freezes and dumps the containers it was told of."""

    def __init__(self) -> None:
        """Know no container yet."""
        self.containers: dict[str, Processes] = {}

    def version(self) -> str:
        """Return that of a runc."""
        return "runc 1.1.15"

    def status(self, container: str) -> str | None:
        """Return what was last made of it."""
        found = self.containers.get(container)
        return found.status if found else None

    def freeze(self, container: str) -> None:
        """Mark it as frozen."""
        self._known("freezing", container).status = "paused"

    def thaw(self, container: str) -> None:
        """Mark it as running if it is frozen."""
        if self.status(container) == "paused":
            self.containers[container].status = "running"

    def dump(self, container: str, options: DumpOptions, pass_fds: Sequence[int] = ()) -> None:  # noqa: ARG002
        """Write one page image."""
        self._known("dumping the processes", container)
        try:
            options.images.mkdir(exist_ok=True)
            (options.images / "pages-1.img").write_bytes(b"memory")
        except OSError as error:
            action, log = "dumping the processes", options.work / "dump.log"
            raise OciError(action=action, reason=error.strerror, log=log) from error

    def processes(self, container: str) -> list[int]:
        """Return the pids it was given."""
        return list(self._known("listing processes", container).pids)

    def _known(self, action: str, container: str) -> Processes:
        if container not in self.containers:
            raise OciError(action=action, reason="container does not exist")
        return self.containers[container]
