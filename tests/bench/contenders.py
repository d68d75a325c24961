"""The ways to save a job and let it go on; each operation returns its wall seconds."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from spotrun.runtime import criu
from tests.bench import job
from tests.bench.child import answer, timed
from tests.lab.host import Host
from tests.lab.shell import LabError

_SHIM = "/var/lib/spotrun/spotrun-oci"
_STORE = "/var/lib/spotrun/store"

_TOUCHED = 6144
"""MiB: what the contenders and the page cache come to need."""


@dataclass(slots=True)
class Run:
    """One spotrun command: its wall seconds and what it says of its phases."""

    seconds: float = 0
    frozen: float = 0
    """From the begin of the phase `freeze` to the end of `thaw`, the journal's writes included."""
    sent: int = 0
    """Bytes that had to go to the store."""
    phases: dict[str, float] = field(default_factory=dict)


class Spotrun:
    """A job under spotrun."""

    container = "job"

    def __init__(self, host: Host) -> None:
        """Work on that host."""
        self._host = host

    def start(self) -> None:
        """Start the job."""
        options = ["-d", f"--name={self.container}", *job.OPTIONS]
        self._host.run(["spotrun", "run", *options, job.IMAGE, *job.WORDS])

    def checkpoint(self) -> Run:
        """Save it; it ends."""
        return _run(self._host, "checkpoint", self.container)

    def checkpoint_running(self) -> Run:
        """Save it and let it run on."""
        return _run(self._host, "checkpoint", "--leave-running", self.container)

    def restore(self) -> Run:
        """Let it go on."""
        return _run(self._host, "restore", self.container)

    def forget(self) -> None:
        """Remove all snapshots, off the clock, as the peer's archive is."""
        self._host.run(["rm", "-r", f"{_STORE}/snapshots/{self.container}", f"{_STORE}/packs"])


class Podman:
    """The same job under plain Podman with runc."""

    container = "peer"
    _archive = "/var/lib/containers/peer.tar.zst"
    _config = "/root/criu.conf"

    def __init__(self, host: Host) -> None:
        """Work on that host."""
        self._host = host

    def start(self) -> None:
        """Start the job, with the CRIU options that spotrun uses."""
        self._host.path(self._config).write_text(criu.config())
        options = ["-d", f"--name={self.container}", *job.OPTIONS]
        options.append(f"--annotation=org.criu.config={self._config}")
        self._host.run(["podman", "--runtime=runc", "run", *options, job.IMAGE, *job.WORDS])

    def checkpoint(self) -> float:
        """Save it to an archive; its container stays, and is removed off the clock."""
        argv = ["podman", "container", "checkpoint", f"--export={self._archive}", self.container]
        seconds = timed(self._host, argv)
        self._host.run(["podman", "rm", self.container])
        return seconds

    def restore(self) -> float:
        """Let it go on; the archive is removed off the clock."""
        argv = ["podman", "container", "restore", f"--import={self._archive}"]
        seconds = timed(self._host, argv)
        self._host.path(self._archive).unlink()
        return seconds


def touch_memory(host: Host) -> None:
    """Use memory once: where the machine is virtual, its first use is ten times as slow."""
    folder, file = "/run/bench-touch", "/run/bench-touch/zeros"
    host.fill(folder, _TOUCHED)
    host.run(["dd", "if=/dev/zero", f"of={file}", "bs=1M", f"count={_TOUCHED - 1}"])
    host.run(["umount", folder])


@contextmanager
def halted(host: Host, container: str) -> Iterator[None]:
    """Keep a job from using the processors meanwhile: it is not its turn."""
    host.run(["podman", "pause", container])
    try:
        yield
    finally:
        host.run(["podman", "unpause", container])


def bare_dump(host: Host, container: str, folder: str) -> float:
    """Dump a paused container to a new folder with runc alone; it goes on afterwards."""
    runc, identity = ["runc", "--root=/run/runc"], inspected(host, container, "{{.Id}}")
    paths = [f"--image-path={folder}/criu", f"--work-path={folder}/work"]
    host.run(["mkdir", "-p", f"{folder}/criu", f"{folder}/work"])
    host.run([*runc, "pause", identity])
    try:
        seconds = timed(host, [*runc, "checkpoint", "--leave-running", *paths, identity])
    finally:
        host.run([*runc, "resume", identity])
    host.run(["test", "-s", f"{folder}/criu/inventory.img"])
    return seconds


def shim_calls(host: Host, container: str) -> tuple[list[float], list[float]]:
    """Return the seconds of calls of the shim and of runc that do the same."""
    arguments = ["--root=/run/runc", "state", inspected(host, container, "{{.Id}}")]
    shim, runc = answer(host, list[list[float]], "calls", _SHIM, "runc", *arguments)
    return shim, runc


def inspected(host: Host, container: str, what: str) -> str:
    """Return what Podman says of a container."""
    return host.run(["podman", "inspect", f"--format={what}", container]).stdout.strip()


def _run(host: Host, *words: str) -> Run:
    """Run a verb and take the time of its events as they come."""
    made, at = Run(), {}
    start = time.monotonic()
    with host.popen(["spotrun", *words, "--format=json"]) as child:
        assert child.stdout
        assert child.stderr
        said = []
        for line in child.stderr:
            event = json.loads(line)
            at[event.get("phase"), event.get("state")] = time.monotonic()
            said.append(event)
        out = child.stdout.read()
    made.seconds = time.monotonic() - start
    if child.returncode != 0:
        raise LabError(f"spotrun {' '.join(words)}: {child.returncode}: {out}{said}")
    phases = json.loads(out)["data"]["phases"]
    made.phases = {it["name"]: it["seconds"] for it in phases}
    made.sent = sum(it["bytes"] for it in phases if it["name"] == "store")
    if "thaw" in made.phases:
        made.frozen = at["thaw", "end"] - at["freeze", "begin"]
    return made
