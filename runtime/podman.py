"""Podman as the engine: podman-py for what its API offers, the CLI for the user's own commands."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spotrun.images.errors import EngineError, NotHere
from spotrun.images.process import Completed, Runner
from spotrun.images.runspec import ImageRef
from spotrun.runtime import engine_cli
from spotrun.runtime.engine import JOB_LABEL, Container, Mount
from spotrun.runtime.engine_cli import MAKING
from spotrun.runtime.paths import Paths

if TYPE_CHECKING:
    from podman import PodmanClient

    from spotrun.images.logfile import Excerpt, LogLine
    from spotrun.images.logformat import LogFile

_FILE_LOGS: Final = frozenset(("k8s-file", "json-file"))
"""Log drivers that keep a file, both in the format of Kubernetes."""
_LOST: Final = 255
_MADE_UP: Final = re.compile(r"[0-9a-f]{64}")
"""How Podman names a volume that the user gave no name."""


class Podman:
    """Podman of this host, as root."""

    name = "podman"
    runc_root = Path("/run/runc")
    log_driver = "k8s-file"

    def __init__(self, runner: Runner, paths: Paths) -> None:
        """Reach it by its socket; without one, its service is started when first needed."""
        self._runner = runner
        self._paths = paths

    def version(self) -> str:
        """Ask the CLI, which is cheaper than a service."""
        return f"podman {self._cli('version', '--format', '{{.Client.Version}}').stdout.strip()}"

    def knows_shim(self) -> bool:
        """Say yes: each command gives it the path of its OCI runtime."""
        return True

    def command(
        self,
        words: Sequence[str],
        *,
        silent: bool = False,
        on_term: Callable[[], None] | None = None,
    ) -> int:
        """Hand the terminal to Podman's CLI."""
        argv = self._with_shim(*words) if words[0] in MAKING else ["podman", *words]
        return engine_cli.call(
            self._runner, self.name, argv, words[0], silent=silent, on_term=on_term
        )

    def create(self, arguments: Sequence[str]) -> str:
        """Return the id that `podman create` prints."""
        made = engine_cli.checked(self._runner, self.name, self._with_shim("create", *arguments))
        return made.stdout.split()[-1]

    def start(self, container: str) -> None:
        """Start it; the error is what the OCI runtime said."""
        with self._api() as api:
            api.containers.get(container).start()

    def find(self, name: str) -> Container | None:
        """Inspect it."""
        try:
            with self._api() as api:
                return _container(api.containers.get(name).attrs)
        except NotHere:
            return None

    def jobs(self) -> list[Container]:
        """Inspect all that have our label."""
        return self._filtered(JOB_LABEL)

    def labelled(self, label: str, value: str) -> list[Container]:
        """Inspect all that have that label."""
        return self._filtered(f"{label}={value}")

    def remove(self, container: str) -> None:
        """Kill it first, so that neither its stop signal nor its restart policy comes in."""
        with suppress(EngineError), self._api() as api:  # it may have no process any more
            api.containers.get(container).kill("SIGKILL")
        try:
            with suppress(NotHere), self._api() as api:
                api.containers.get(container).remove(v=True, force=True)
        except EngineError:  # --rm may have been quicker, and the API's answer then is any
            if self.find(container):
                raise

    def rename(self, container: str, name: str) -> None:
        """Rename it."""
        with self._api() as api:
            api.containers.get(container).rename(name)

    def wait(self, container: str) -> int:
        """Ask the wait endpoint, which answers when it has ended, but by 0 after a power cut."""
        with self._api() as api:
            told = int(api.containers.get(container).wait())
        found = self.find(container)
        return found.exit_code if found and found.status == "exited" else told

    def last_exit(self, job: str, since: datetime) -> int | None:
        """Ask the CLI for the deaths among the events: the API's answer has no end.

        Nor may it be told of one: it would stop to read at that time, however far it has come.
        """
        wanted = ("--filter=event=died", f"--filter=label={JOB_LABEL}={job}", "--format=json")
        span = (f"--since={since.isoformat()}", "--stream=false")
        told = self._cli("events", *span, *wanted).stdout.splitlines()
        return int(json.loads(told[-1])["ContainerExitCode"]) if told else None

    def healthy(self, container: str) -> bool | None:
        """Run its check: by itself Podman does so only where systemd runs."""
        with self._api() as api:
            check = api.containers.get(container).attrs["Config"].get("Healthcheck") or {}
        if check.get("Test") in (None, [], ["NONE"]):
            return None
        return self._runner.run(["podman", "healthcheck", "run", container]).status == 0

    def logs(self, container: str, *, follow: bool, part: "Excerpt") -> "Iterator[LogLine]":
        """Read the frames of the log endpoint."""
        with self._api() as api:
            from spotrun.runtime.podman_service import output

            yield from output(api, container, follow=follow, part=part)

    def volume(self, name: str) -> str | None:
        """Return the instant of its creation, in nanoseconds."""
        try:
            with self._api() as api:
                return str(api.volumes.get(name).attrs["CreatedAt"])
        except NotHere:
            return None

    def remove_volume(self, name: str) -> None:
        """Remove it, unless a container uses it."""
        with suppress(NotHere), self._api() as api:
            api.volumes.get(name).remove()

    def image(self, reference: str) -> ImageRef | None:
        """Inspect an image."""
        try:
            with self._api() as api:
                return described(reference, api.images.get(reference).attrs)
        except NotHere:
            return None

    def layers(self) -> frozenset[str]:
        """Inspect all images."""
        with self._api() as api:
            found = [api.images.get(image.id).attrs for image in api.images.list(all=True)]
        return frozenset(layer for attrs in found for layer in attrs["RootFS"]["Layers"] or [])

    def save_image(self, image: ImageRef, folder: Path) -> None:
        """Save it uncompressed, so that layers are named by what they hold."""
        self._cli("save", "--quiet", "--format=docker-dir", f"--output={folder}", image.id)

    def load_image(self, image: ImageRef, folder: Path) -> None:
        """Pull it from the folder; Podman skips the layers it has. A name in use stays."""
        self._cli("pull", "--quiet", f"dir:{folder}")
        if self.image(image.name) is None:
            self._cli("tag", image.id, image.name)

    def pull(self, digest: str) -> None:
        """Pull from the registry."""
        self._cli("pull", "--quiet", digest)

    def _filtered(self, label: str) -> list[Container]:
        with self._api() as api:
            ids = [it.id for it in api.containers.list(all=True, filters={"label": label})]
        found = (self.find(container) for container in ids)
        return [container for container in found if container]  # some may be gone by now

    def _with_shim(self, *arguments: str) -> list[str]:
        return ["podman", f"--runtime={self._paths.shim}", *arguments]

    def _cli(self, *arguments: str) -> Completed:
        return engine_cli.checked(self._runner, self.name, ["podman", *arguments])

    def _api(self) -> "AbstractContextManager[PodmanClient]":
        from spotrun.runtime.podman_service import client

        return client(self._runner, self._paths)


def _container(attrs: dict[str, Any]) -> Container:
    """Read what the inspect endpoint returns (libpod API 5)."""
    state, log = attrs["State"], attrs["HostConfig"]["LogConfig"]
    return Container(
        id=attrs["Id"],
        name=attrs["Name"],
        job=_job(attrs["Config"]),
        image_id=attrs["Image"],
        status=state["Status"],
        pid=state["Pid"],
        exit_code=exit_code(attrs),
        bundle=Path(attrs["OCIConfigPath"]).parent if attrs.get("OCIConfigPath") else None,
        upper=Path(attrs["GraphDriver"]["Data"]["UpperDir"]),
        log=_log(log["Path"]) if log["Type"] in _FILE_LOGS and log["Path"] else None,
        mounts=tuple(_mount(mount) for mount in attrs["Mounts"]),
        created=attrs["Created"],
    )


def exit_code(attrs: dict[str, Any]) -> int:
    """Return that of Docker for what a power cut has ended: Podman has seen no end of it.

    One that ended at once may have done so before Podman noted its start. But then the file with
    the id of its conmon is there, from before that start: in memory, where no power cut leaves
    it, and written again by each later try to start it.
    """
    state = attrs["State"]
    started, finished = (datetime.fromisoformat(state[it]) for it in ("StartedAt", "FinishedAt"))
    unseen = state["Status"] == "exited" and finished < started
    cut = unseen and not _was_there(Path(attrs["ConmonPidFile"]), started)
    return _LOST if cut else int(state["ExitCode"])


def _was_there(path: Path, when: datetime) -> bool:
    """Tell whether a file has been there since before a time."""
    try:
        return path.stat().st_mtime <= when.timestamp()
    except FileNotFoundError:
        return False


def _log(path: str) -> "LogFile":
    from spotrun.images.logformat import LogFile, LogFormat

    return LogFile(Path(path), LogFormat.KUBERNETES)


def _job(config: dict[str, Any]) -> str | None:
    """Read it from the label, or of a container that others started from the annotation."""
    found = {**(config.get("Annotations") or {}), **(config.get("Labels") or {})}
    return found.get(JOB_LABEL)


def _mount(attrs: dict[str, Any]) -> Mount:
    name = attrs.get("Name")
    return Mount(
        kind=attrs["Type"],
        source=Path(attrs["Source"]),
        destination=attrs["Destination"],
        volume=name,
        anonymous=bool(name and _MADE_UP.fullmatch(name)),
    )


def described(name: str, attrs: dict[str, Any]) -> ImageRef:
    """Return an image from what the inspect endpoint says of it."""
    digests = [d for d in attrs.get("RepoDigests") or [] if not d.startswith("localhost/")]
    return ImageRef(
        name=name,
        id=attrs["Id"],
        digest=digests[0] if digests and _is_of_registry(attrs) else None,
        layers=tuple(attrs["RootFS"]["Layers"] or ()),
    )


def _is_of_registry(attrs: dict[str, Any]) -> bool:
    """Tell by its manifest, which no API shows: Podman has digests for what it made itself, too.

    The layers in a registry are compressed; those that were made or loaded here are not.
    """
    storage = Path(attrs["GraphDriver"]["Data"]["UpperDir"]).parents[2]
    try:
        manifest = (storage / "overlay-images" / attrs["Id"] / "manifest").read_bytes()
        layers = {layer["digest"] for layer in json.loads(manifest)["layers"]}
    except (OSError, ValueError, KeyError):
        return False
    return layers.isdisjoint(attrs["RootFS"]["Layers"] or ())
