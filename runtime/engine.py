"""The engine seam: images, containers, networks and logs belong to Docker or Podman."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from spotrun.images.runspec import ImageRef

if TYPE_CHECKING:  # `run` reads no logs, and is compared with `docker run`
    from spotrun.images.logfile import Excerpt, LogLine
    from spotrun.images.logformat import LogFile

JOB_LABEL: Final = "io.spotrun.job"
"""Label and annotation of every container of a job; its value is the job's name."""
RESTORE_ANNOTATION: Final = "io.spotrun.restore"
"""Annotation of a container that the shim restores; its value is the path of the plan."""
TRANSACTION_LABEL: Final = "io.spotrun.restored-by"
"""Label of a container that a restore made; its value is unique to the attempt."""
CRIU_ANNOTATION: Final = "org.criu.config"
"""Annotation by which runc finds a container's own CRIU configuration file."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory or file of the host that a container sees."""

    kind: str
    """`bind`: named by the user; `volume`: the engine's."""
    source: Path
    destination: str
    volume: str | None = None
    """Name of the volume."""
    anonymous: bool = False
    """Whether the engine made the name up; such a volume goes with its container."""


@dataclass(frozen=True, slots=True)
class Container:
    """What an engine says of one container."""

    id: str
    name: str
    job: str | None
    """The job it belongs to; None: it is not spotrun's."""
    image_id: str
    status: str
    """The engine's own word: created, running, paused, exited, …"""
    pid: int
    """Of its first process on this host; 0: it has none."""
    exit_code: int
    bundle: Path | None
    """Folder with the `config.json` that the OCI runtime was given; None: it never started."""
    upper: Path
    """Upper directory of its overlay."""
    log: "LogFile | None"
    """Its log file; None: its log driver keeps none that can be copied."""
    mounts: tuple[Mount, ...]
    """Volumes and bind mounts."""
    created: str
    """ISO 8601."""

    @property
    def running(self) -> bool:
        """Tell whether it has processes."""
        return self.status in {"running", "paused"}

    @property
    def begun(self) -> bool:
        """Tell whether it runs or has run: one that was only made has an exit code, too."""
        return self.status not in {"created", "configured", "initialized"}

    @property
    def finished(self) -> bool:
        """Tell whether it has come to a good end; what it has left may be all that was wanted."""
        return self.status in {"exited", "stopped"} and self.exit_code == 0


class Engine(Protocol):
    """One engine on this host.

    Callers may rely on: every method raises EngineError with the engine's own reason in one
    sentence; names and ids are both accepted where a container is named; `remove` and
    `ensure_image` may be called again after any failure.
    """

    name: str
    """`docker` or `podman`; the CLI has the same."""
    runc_root: Path
    """Where runc keeps what it knows of this engine's containers."""
    log_driver: str
    """The log driver that keeps a file which can move with a job."""

    def version(self) -> str:
        """Return the engine's name and version, like `podman 5.4.2`."""
        ...

    def knows_shim(self) -> bool:
        """Tell whether it can start containers by the shim, which some must be told of."""
        ...

    def command(
        self,
        words: Sequence[str],
        *,
        silent: bool = False,
        on_term: Callable[[], None] | None = None,
    ) -> int:
        """Run one of the engine's own commands with this terminal; return its exit status.

        `run` and `create` make a container that the shim will start. A silent one writes nothing,
        and where the engine itself fails it raises EngineError with the exit code of `docker run`.
        SIGTERM is for the container, unless it calls `on_term`.
        """
        ...

    def create(self, arguments: Sequence[str]) -> str:
        """Make a container that the shim will start; return its id."""
        ...

    def start(self, container: str) -> None:
        """Start a created container."""
        ...

    def find(self, name: str) -> Container | None:
        """Return the container of that name or id, or None."""
        ...

    def jobs(self) -> list[Container]:
        """Return all containers that belong to jobs, running or not."""
        ...

    def labelled(self, label: str, value: str) -> list[Container]:
        """Return all containers with that label."""
        ...

    def remove(self, container: str) -> None:
        """End and remove a container with its anonymous volumes; a missing one is no error."""
        ...

    def rename(self, container: str, name: str) -> None:
        """Give a container that does not run another name."""
        ...

    def wait(self, container: str) -> int:
        """Wait until a container has ended, and return its exit code."""
        ...

    def last_exit(self, job: str, since: datetime) -> int | None:
        """Return the exit code of the job's container that has ended last since then.

        It may be gone, with --rm. None: the engine's events tell of none, or are not kept.
        """
        ...

    def healthy(self, container: str) -> bool | None:
        """Tell whether a running container's own health check holds; None: it has none."""
        ...

    def logs(self, container: str, *, follow: bool, part: "Excerpt") -> "Iterator[LogLine]":
        """Yield a container's output from its first line on, or a part of it."""
        ...

    def volume(self, name: str) -> str | None:
        """Return what tells this volume from any other of its name; None: there is none."""
        ...

    def remove_volume(self, name: str) -> None:
        """Remove a volume that no container uses; a missing one is no error."""
        ...

    def image(self, reference: str) -> ImageRef | None:
        """Return the local image of that name or id, or None."""
        ...

    def layers(self) -> frozenset[str]:
        """Return the digests of uncompressed layers that `load_image` can do without."""
        ...

    def save_image(self, image: ImageRef, folder: Path) -> None:
        """Write an image in the `dir:` form, each layer a file named by its hex digest."""
        ...

    def load_image(self, image: ImageRef, folder: Path) -> None:
        """Take an image from the `dir:` form; layers that are here may be missing in it."""
        ...

    def pull(self, digest: str) -> None:
        """Fetch an image by `name@sha256:…` from its registry."""
        ...
