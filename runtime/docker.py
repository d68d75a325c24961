"""Docker as the engine: docker-py for what its API offers, the CLI for commands that users type.

Its daemon knows only OCI runtimes that it was told of: `spotrun install` does that.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, Final

from spotrun.images.errors import CommandFailed, EngineError, HostUnfit, NotHere
from spotrun.images.process import Runner
from spotrun.images.runspec import ImageRef
from spotrun.runtime import engine_cli, grammar
from spotrun.runtime.engine import JOB_LABEL, Container, Mount
from spotrun.runtime.engine_cli import MAKING
from spotrun.runtime.engines import RUNTIME, SOCKET, docker_is_told
from spotrun.runtime.processes import overlay_upper

if TYPE_CHECKING:
    from docker import APIClient

    from spotrun.images.logfile import Excerpt, LogLine
    from spotrun.images.logformat import LogFile
    from spotrun.runtime.containerd import Containerd

_BUNDLES: Final = (
    Path("/run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby"),
    Path("/run/containerd/io.containerd.runtime.v2.task/moby"),
)
"""Where a containerd of Docker's own, or of the host, keeps bundles."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
"""Also how Docker names a volume that the user gave no name."""
_GOING: Final = frozenset(("removing", "dead"))
"""States of a container whose files are gone, or about to be."""
_REMOVAL: Final = 5.0
_STEP: Final = 0.05


class Docker:
    """Docker of this host, by its default socket."""

    name = "docker"
    runc_root = Path("/run/docker/runtime-runc/moby")
    log_driver = "json-file"

    def __init__(self, runner: Runner) -> None:
        """Reach it when first needed."""
        self._runner = runner

    def version(self) -> str:
        """Ask the daemon."""
        with self._api() as api:
            return f"docker {api.version()['Version']}"

    def knows_shim(self) -> bool:
        """Ask the daemon for its runtimes."""
        return RUNTIME in self._info["Runtimes"]

    def command(
        self,
        words: Sequence[str],
        *,
        silent: bool = False,
        on_term: Callable[[], None] | None = None,
    ) -> int:
        """Hand the terminal to Docker's CLI."""
        argv = self._with_shim(*words) if words[0] in MAKING else self._argv(*words)
        return engine_cli.call(
            self._runner, self.name, argv, words[0], silent=silent, on_term=on_term
        )

    def create(self, arguments: Sequence[str]) -> str:
        """Return the id that `docker create` prints."""
        spec = grammar.split(arguments)
        with self._api() as api:
            words = (*spec.options, self._own_id(api, spec.image), *spec.command)
        made = engine_cli.checked(self._runner, self.name, self._with_shim("create", *words))
        return made.stdout.split()[-1]

    def start(self, container: str) -> None:
        """Start it; the error is what the OCI runtime said."""
        with self._api() as api:
            api.start(container)

    def find(self, name: str) -> Container | None:
        """Inspect it; one that is being removed, and has no files any more, is waited for."""
        end = monotonic() + _REMOVAL
        with suppress(NotHere):
            while monotonic() < end:
                attrs = self._attrs(name)
                if attrs["State"]["Status"] not in _GOING:
                    try:
                        return self._container(attrs)
                    except CommandFailed:
                        if self._attrs(name)["State"]["Status"] not in _GOING:
                            raise
                sleep(_STEP)
        return None

    def jobs(self) -> list[Container]:
        """Inspect all that have our label."""
        return self._filtered(JOB_LABEL)

    def labelled(self, label: str, value: str) -> list[Container]:
        """Inspect all that have that label."""
        return self._filtered(f"{label}={value}")

    def remove(self, container: str) -> None:
        """Kill and remove it in one call, which no restart policy comes in between."""
        try:
            with suppress(NotHere), self._api() as api:
                api.remove_container(container, v=True, force=True)
        except EngineError:  # --rm may have been quicker, and the answer then is any
            if self.find(container):
                raise

    def rename(self, container: str, name: str) -> None:
        """Rename it."""
        with self._api() as api:
            api.rename(container, name)

    def wait(self, container: str) -> int:
        """Ask the wait endpoint, which answers when it has ended."""
        with self._api() as api:
            return int(api.wait(container, timeout=None)["StatusCode"])

    def last_exit(self, job: str, since: datetime) -> int | None:
        """Ask for the deaths among the events, of which the daemon keeps some hundreds."""
        wanted = {"label": f"{JOB_LABEL}={job}", "event": "die"}
        span = {"since": str(since.timestamp()), "until": str(time())}
        with self._api() as api:
            told = list(api.events(**span, filters=wanted, decode=True))
        return int(told[-1]["Actor"]["Attributes"]["exitCode"]) if told else None

    def healthy(self, container: str) -> bool | None:
        """Return what its checks, which the daemon runs, have come to."""
        health = self._attrs(container)["State"].get("Health")
        return health["Status"] == "healthy" if health else None

    def logs(self, container: str, *, follow: bool, part: "Excerpt") -> "Iterator[LogLine]":
        """Read the log endpoint, which has frames unless the container has a terminal."""
        from spotrun.images.logfile import LogLine
        from spotrun.runtime.frames import frames

        with self._api() as api:
            terminal = api.inspect_container(container)["Config"]["Tty"]
            params = {"stdout": True, "stderr": True, "follow": follow, **part.query}
            path = f"{api.base_url}/v{api.api_version}/containers/{container}/logs"
            with closing(api.get(path, params=params, stream=True, timeout=None)) as response:
                if terminal:
                    pieces = response.iter_content(chunk_size=None)
                    yield from (LogLine("stdout", piece) for piece in pieces)
                else:
                    yield from frames(response.raw)

    def volume(self, name: str) -> str | None:
        """Return when it was made, which Docker says in seconds and the disk more finely."""
        try:
            with self._api() as api:
                attrs = api.inspect_volume(name)
        except NotHere:
            return None
        made = self._runner.run(["stat", "--format=%w", attrs["Mountpoint"]]).stdout.strip()
        return f"{attrs['CreatedAt']} {made}"

    def remove_volume(self, name: str) -> None:
        """Remove it, unless a container uses it."""
        with suppress(NotHere), self._api() as api:
            api.remove_volume(name)

    def image(self, reference: str) -> ImageRef | None:
        """Inspect an image."""
        try:
            with self._api() as api:
                attrs = self._inspected(api, reference)
        except NotHere:
            return None
        from spotrun.runtime import docker_images

        config = self._config(attrs["Id"])
        sources = self._containerd.sources(attrs["Id"]) if self._by_containerd else None
        return docker_images.described(reference, attrs, config, sources)

    def layers(self) -> frozenset[str]:
        """Inspect all images; containerd does not take an image in parts."""
        if self._by_containerd:
            return frozenset()
        with self._api() as api:
            found = [api.inspect_image(image["Id"]) for image in api.images(all=True)]
        return frozenset(layer for attrs in found for layer in attrs["RootFS"]["Layers"] or [])

    def save_image(self, image: ImageRef, folder: Path) -> None:
        """Save it, and name its layers by what they hold."""
        from spotrun.runtime import docker_images

        with self._api() as api:
            name = self._inspected(api, image.id)["Id"]
        docker_images.save(self._runner, self._argv("save", name), folder)

    def load_image(self, image: ImageRef, folder: Path) -> None:
        """Load it; Docker skips the layers it has. A name in use stays."""
        from spotrun.runtime import docker_images

        tag = image.name if self.image(image.name) is None else None
        docker_images.load(self._runner, self._argv("load", "--quiet"), folder, image, tag)

    def pull(self, digest: str) -> None:
        """Pull from the registry."""
        engine_cli.checked(self._runner, self.name, self._argv("pull", "--quiet", digest))

    def _filtered(self, label: str) -> list[Container]:
        with self._api() as api:
            ids = [it["Id"] for it in api.containers(all=True, filters={"label": label})]
        found = (self.find(container) for container in ids)
        return [container for container in found if container]  # some may be gone by now

    def _attrs(self, container: str) -> dict[str, Any]:
        with self._api() as api:
            found: dict[str, Any] = api.inspect_container(container)
        return found

    def _container(self, attrs: dict[str, Any]) -> Container:
        state, log = attrs["State"], attrs["HostConfig"]["LogConfig"]
        return Container(
            id=attrs["Id"],
            name=attrs["Name"].removeprefix("/"),
            job=_job(attrs),
            image_id=self._config(attrs["Image"]),
            status=state["Status"],
            pid=state["Pid"],
            exit_code=state["ExitCode"],
            bundle=next((it for it in _bundles(attrs["Id"]) if it.is_dir()), None),
            upper=self._upper(attrs),
            log=self._log(attrs["Id"]) if log["Type"] == self.log_driver else None,
            mounts=tuple(_mount(mount) for mount in attrs["Mounts"]),
            created=attrs["Created"],
        )

    def _log(self, container: str) -> "LogFile":
        """Return where it will be also before the first start, when Docker does not say it yet."""
        from spotrun.images.logformat import LogFile, LogFormat

        folder = Path(self._info["DockerRootDir"], "containers", container)
        return LogFile(folder / f"{container}-json.log", LogFormat.JSON)

    def _upper(self, attrs: dict[str, Any]) -> Path:
        data = attrs["GraphDriver"]["Data"]
        if data:
            return Path(data["UpperDir"])
        pid = attrs["State"]["Pid"]
        return (pid and overlay_upper(pid)) or self._containerd.upper(attrs["Id"])

    def _inspected(self, api: "APIClient", reference: str) -> dict[str, Any]:
        """Return an image by its name, or by the digest of its configuration."""
        found: dict[str, Any] = api.inspect_image(self._own_id(api, reference))
        return found

    def _own_id(self, api: "APIClient", reference: str) -> str:
        """Return the id that Docker has for an image by the digest of its configuration."""
        if not self._by_containerd or not _DIGEST.fullmatch(reference):
            return reference
        same = (it["Id"] for it in api.images() if self._config(it["Id"]) == reference)
        return next(same, reference)

    def _config(self, image: str) -> str:
        """Return the digest of an image's configuration: its id, unless containerd keeps it."""
        return self._containerd.config(image) if self._by_containerd else image.partition(":")[2]

    @cached_property
    def _info(self) -> dict[str, Any]:
        with self._api() as api:
            found: dict[str, Any] = api.info()
        return found

    @property
    def _by_containerd(self) -> bool:
        """Tell whether images and overlays are containerd's, not Docker's own graph driver's."""
        return ["driver-type", "io.containerd.snapshotter.v1"] in self._info["DriverStatus"]

    @property
    def _containerd(self) -> "Containerd":
        from spotrun.runtime.containerd import Containerd

        return Containerd(self._runner, self._info["Driver"])

    def _with_shim(self, verb: str, *arguments: str) -> list[str]:
        if not docker_is_told() and not self.knows_shim():
            reason = "Docker does not know spotrun's OCI runtime; `spotrun install` registers it"
            raise HostUnfit(message=reason)
        return self._argv(verb, f"--runtime={RUNTIME}", *arguments)

    def _argv(self, *arguments: str) -> list[str]:
        return ["docker", f"--host=unix://{SOCKET}", *arguments]

    @contextmanager
    def _api(self) -> "Iterator[APIClient]":
        """Yield a client; what the API refuses becomes NotHere or EngineError."""
        from docker import APIClient
        from docker.errors import APIError, DockerException, NotFound

        try:
            opened = APIClient(base_url=f"unix://{SOCKET}", version="auto")
        except (DockerException, OSError) as error:
            reason = f"its daemon does not answer at {SOCKET}; start it"
            raise EngineError(engine=self.name, reason=reason) from error
        with closing(opened):
            try:
                yield opened
            except NotFound as error:
                raise NotHere(engine=self.name, reason=error.explanation or error) from error
            except APIError as error:
                raise EngineError(engine=self.name, reason=error.explanation or error) from error
            except (DockerException, OSError) as error:
                raise EngineError(engine=self.name, reason=error) from error


def _bundles(container: str) -> list[Path]:
    return [folder / container for folder in _BUNDLES]


def _mount(attrs: dict[str, Any]) -> Mount:
    name = attrs.get("Name")
    return Mount(
        kind=attrs["Type"],
        source=Path(attrs["Source"]),
        destination=attrs["Destination"],
        volume=name,
        anonymous=bool(name and _DIGEST.fullmatch(name)),
    )


def _job(attrs: dict[str, Any]) -> str | None:
    """Read it from the label, or of a container that others started from the annotation."""
    found = {**(attrs["HostConfig"].get("Annotations") or {}), **(attrs["Config"]["Labels"] or {})}
    return found.get(JOB_LABEL)
