"""An engine in memory, with real folders for what others read and write in it."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Final

from spotrun.images.errors import EngineError, ExitCode, NotHere
from spotrun.images.logfile import WHOLE, Excerpt, LogLine
from spotrun.images.runspec import ImageRef
from spotrun.runtime import grammar
from spotrun.runtime.engine import JOB_LABEL, Container, Mount
from tests.fakes.oci import FakeOci, Processes

_FIRST_PID: Final = 1 << 29
"""No process of this host has such a pid."""
_KILLED: Final = 137
_CREATED: Final = "2026-12-01T10:00:00Z"


@dataclass(frozen=True, slots=True)
class Ended:
    """What a program leaves that comes to its end at once."""

    lines: tuple[LogLine, ...] = ()
    status: int = 0


Programs = Mapping[tuple[str, ...], Ended]
"""Command lines that end at once; all others run until their container is removed."""


@dataclass(slots=True)
class _Made:
    container: Container
    labels: dict[str, str]
    arguments: tuple[str, ...]
    command: tuple[str, ...]
    lines: list[LogLine] = field(default_factory=list)


class FakeEngine:
    """Images, containers and volumes of one host, under `folder`."""

    name = "podman"
    runc_root = Path("/run/runc")
    log_driver = "k8s-file"

    def __init__(self, folder: Path, oci: FakeOci, programs: Programs | None = None) -> None:
        """Begin empty; started containers become known to `oci`."""
        self._folder = folder
        self._oci = oci
        self._programs = programs or {}
        self._made: dict[str, _Made] = {}
        self._volumes: dict[str, str] = {}
        self._images: dict[str, tuple[ImageRef, dict[str, bytes]]] = {}
        self._numbers = count(1)
        self._deaths: list[tuple[str | None, datetime, int]] = []
        """Jobs that have ended, when, and with what."""
        self.commands: list[tuple[str, ...]] = []
        """What was asked of its command line."""

    def add_image(self, name: str, *layers: bytes, digest: str | None = None) -> ImageRef:
        """Have an image of these layers."""
        named = {sha256(layer).hexdigest(): layer for layer in layers}
        identity = sha256(name.encode()).hexdigest()
        image = ImageRef(name, identity, digest, tuple(f"sha256:{key}" for key in named))
        self._images[name] = (image, named)
        return image

    def arguments(self, container: str) -> tuple[str, ...]:
        """Return what a container was made with."""
        return self._get(container).arguments

    def version(self) -> str:
        """Return that of a Podman."""
        return "podman 5.4.2"

    def knows_shim(self) -> bool:
        """Have no need to be told."""
        return True

    def command(
        self,
        words: Sequence[str],
        *,
        silent: bool = False,
        on_term: Callable[[], None] | None = None,  # noqa: ARG002 # nobody sends it one
    ) -> int:
        """Do what the command does, as far as it is known here."""
        self.commands.append(tuple(words))
        try:
            return self._command(*words, silent=silent)
        except EngineError:
            if silent:
                raise
            return ExitCode.OWN_ERROR

    def _command(self, verb: str, *arguments: str, silent: bool) -> int:
        if verb == "run":
            return self._run(arguments, silent=silent)
        if verb == "create":
            identity = self.create(arguments)
            if not silent:
                sys.stdout.write(f"{identity}\n")
            return ExitCode.OK
        if verb == "tag":
            image, name = arguments
            found_image, layers = self._images[image]
            self._images[name] = replace(found_image, name=name), layers
            return ExitCode.OK
        if verb == "rmi":
            del self._images[arguments[-1]]
            return ExitCode.OK
        found = [it for it in map(self.find, arguments) if it]
        if not found:
            raise NotHere(engine="podman", reason=f"no such container {arguments[-1]}")
        for container in found:
            self._change(verb, container, arguments)
        return ExitCode.OK

    def _run(self, arguments: Sequence[str], *, silent: bool) -> int:
        made = self._get(self.create(arguments))
        self.start(made.container.id)
        if grammar.flag(made.arguments, "--rm") and not made.container.running:
            self.remove(made.container.id)
        status = made.container.exit_code
        if silent and status == ExitCode.NOT_FOUND:
            error = EngineError(engine="podman", reason=f"{made.command[0]}: command not found")
            error.exit_code = ExitCode.NOT_FOUND
            raise error
        return status

    def _change(self, verb: str, container: Container, options: Sequence[str]) -> None:
        made = self._get(container.id)
        if verb == "start":
            self.start(container.id)
        elif verb in {"stop", "kill"}:
            made.container = replace(container, status="exited", pid=0, exit_code=_KILLED)
            self._has_died(made.container)
            self._oci.containers.pop(container.id, None)
        elif verb == "rm":
            if container.running and "--force" not in options:
                reason = f"cannot remove container {container.id} as it is running"
                raise EngineError(engine="podman", reason=reason)
            self.remove(container.id)

    def create(self, arguments: Sequence[str]) -> str:
        """Read the command line as spotrun itself does."""
        spec = grammar.split(arguments)
        number = next(self._numbers)
        identity = sha256(str(number).encode()).hexdigest()
        name = grammar.value(spec.options, "--name") or f"fake_{number}"
        image = self.image(spec.image)
        if image is None:
            raise NotHere(engine="podman", reason=f"{spec.image}: image not known")
        if self.find(name):
            raise EngineError(engine="podman", reason=f"the name {name} is already in use")
        given = [it.value or "" for it in grammar.options(spec.options) if it.name == "--label"]
        labels = {key: value for key, _, value in (label.partition("=") for label in given)}
        upper, bundle = self._folder / identity / "upper", self._folder / identity / "bundle"
        upper.mkdir(parents=True)
        bundle.mkdir()
        container = Container(
            id=identity,
            name=name,
            job=labels.get(JOB_LABEL),
            image_id=image.id,
            status="created",
            pid=0,
            exit_code=0,
            bundle=None,
            upper=upper,
            log=None,
            mounts=tuple(self._mounts(spec.options, identity)),
            created=_CREATED,
        )
        self._made[identity] = _Made(container, labels, tuple(arguments), spec.command)
        return identity

    def start(self, container: str) -> None:
        """Let it run, or end at once."""
        made = self._get(container)
        bundle = made.container.upper.with_name("bundle")
        spec = {"process": {"args": made.command, "env": []}, "mounts": []}
        (bundle / "config.json").write_text(json.dumps(spec))
        made.container = replace(made.container, bundle=bundle)
        ended = self._programs.get(made.command)
        if ended:
            made.lines.extend(ended.lines)
            made.container = replace(made.container, status="exited", exit_code=ended.status)
            self._has_died(made.container)
        else:
            pid = _FIRST_PID + next(self._numbers)
            made.container = replace(made.container, status="running", pid=pid)
            self._oci.containers[made.container.id] = Processes(pids=[pid])

    def find(self, name: str) -> Container | None:
        """Look it up by name or id, as the OCI runtime has it now."""
        for made in self._made.values():
            if name in {made.container.id, made.container.name}:
                frozen = self._oci.status(made.container.id) == "paused"
                return replace(made.container, status="paused") if frozen else made.container
        return None

    def jobs(self) -> list[Container]:
        """Return what has a job."""
        return [made.container for made in self._made.values() if made.container.job]

    def labelled(self, label: str, value: str) -> list[Container]:
        """Return what has that label."""
        return [it.container for it in self._made.values() if it.labels.get(label) == value]

    def remove(self, container: str) -> None:
        """Forget it with its folder and its anonymous volumes."""
        found = self.find(container)
        if found is None:
            return
        del self._made[found.id]
        self._oci.containers.pop(found.id, None)
        shutil.rmtree(self._folder / found.id)
        for mount in found.mounts:
            if mount.anonymous and mount.volume:
                self.remove_volume(mount.volume)

    def rename(self, container: str, name: str) -> None:
        """Give it a name that is free."""
        made = self._get(container)
        if self.find(name):
            raise EngineError(engine="podman", reason=f"the name {name} is already in use")
        made.container = replace(made.container, name=name)

    def wait(self, container: str) -> int:
        """Return the exit code of what has ended; what runs for ever cannot be waited for."""
        found = self._get(container).container
        assert not found.running, found
        return found.exit_code

    def last_exit(self, job: str, since: datetime) -> int | None:
        """Look it up."""
        codes = [code for died, at, code in self._deaths if died == job and at >= since]
        return codes[-1] if codes else None

    def healthy(self, container: str) -> bool | None:
        """Believe a check that ends at once; others do not hold."""
        check = grammar.value(self._get(container).arguments, "--health-cmd")
        if check is None:
            return None
        return self._programs.get(("sh", "-c", check), Ended(status=1)).status == 0

    def logs(
        self,
        container: str,
        *,
        follow: bool,  # noqa: ARG002
        part: Excerpt = WHOLE,
    ) -> Iterator[LogLine]:
        """Yield what its program left just now."""
        lines = self._get(container).lines
        if part.since and part.since > datetime.now(UTC):
            return
        stamp = f"{_CREATED} ".encode() if part.timestamps else b""
        first = 0 if part.tail is None else max(0, len(lines) - part.tail)
        yield from (replace(line, data=stamp + line.data) for line in lines[first:])

    def volume(self, name: str) -> str | None:
        """Return the number it was made with."""
        return self._volumes.get(name)

    def remove_volume(self, name: str) -> None:
        """Forget it, unless a container uses it."""
        used = [it.container for it in self._made.values()]
        if any(mount.volume == name for container in used for mount in container.mounts):
            raise EngineError(engine="podman", reason=f"volume {name} is being used")
        if self._volumes.pop(name, None):
            shutil.rmtree(self._folder / name)

    def image(self, reference: str) -> ImageRef | None:
        """Look it up by name or id."""
        found = (it for it, _ in self._images.values() if reference in {it.name, it.id})
        return next(found, None)

    def layers(self) -> frozenset[str]:
        """Return those of all images."""
        return frozenset(layer for image, _ in self._images.values() for layer in image.layers)

    def save_image(self, image: ImageRef, folder: Path) -> None:
        """Write its layers and an empty manifest."""
        if image.name not in self._images:
            raise NotHere(engine="podman", reason=f"{image.name}: image not known")
        folder.mkdir()
        (folder / "manifest.json").write_text("{}")
        for name, layer in self._images[image.name][1].items():
            (folder / name).write_bytes(layer)

    def load_image(self, image: ImageRef, folder: Path) -> None:
        """Take the layers that are there; the others must be here."""
        here = {name: data for _, layers in self._images.values() for name, data in layers.items()}
        layers = {}
        for digest in image.layers:
            name = digest.removeprefix("sha256:")
            file = folder / name
            if not file.exists() and name not in here:
                raise EngineError(engine="podman", reason=f"layer {name} is missing")
            layers[name] = file.read_bytes() if file.exists() else here[name]
        self._images[image.name] = (image, layers)

    def pull(self, digest: str) -> None:
        """Reach no registry."""
        raise EngineError(engine="podman", reason=f"{digest}: connection refused")

    def _has_died(self, container: Container) -> None:
        self._deaths.append((container.job, datetime.now(UTC), container.exit_code))

    def _get(self, container: str) -> _Made:
        found = self.find(container)
        if found is None:
            raise NotHere(engine="podman", reason=f"no such container {container}")
        return self._made[found.id]

    def _mounts(self, options: Sequence[str], container: str) -> Iterator[Mount]:
        """Make the volumes that the options name; one without a name gets one of 64 digits."""
        for option in grammar.options(options):
            if option.name != "--volume" or option.value is None:
                continue
            source, named, destination = option.value.partition(":")
            if source.startswith("/") and named:
                yield Mount("bind", Path(source), destination.partition(":")[0])
                continue
            name = source if named else sha256(f"{container}{source}".encode()).hexdigest()
            if name not in self._volumes:
                self._volumes[name] = str(next(self._numbers))
                (self._folder / name).mkdir()
            place = destination if named else source
            yield Mount("volume", self._folder / name, place, volume=name, anonymous=not named)
