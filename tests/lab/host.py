"""One host of the lab: namespaces on this machine with a disk, an address and an init.

A host dies with the thread that powered it on: keep to the main thread for that.
"""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.lab import cgroups
from tests.lab.images import Image
from tests.lab.root import REPOSITORY
from tests.lab.shell import LabError, failure
from tests.lab.switch import NETWORK, Switch

Engine = Literal["podman", "docker"]
_ENVIRONMENT = {
    "HOME": "/root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "xterm",
}
_BOOT_SECONDS = 20
_MUCH, _LINES = 1 << 16, 40
# a command does not outlive the nsenter that a test kills, for instance by a timeout
_AS_ROOT = ["setpriv", "--pdeathsig=KILL", "env", "--chdir=/root"]


@dataclass(frozen=True, slots=True)
class Place:
    """What a host is made of."""

    name: str
    address: str
    root: Path
    disk: Path
    machine: Path
    """Folder of this machine that all hosts of the lab see as /mnt/machine."""
    stores: Mapping[Image, Path]
    """Read-only stores of test images."""
    hosts: str
    """Text of /etc/hosts."""
    layout: cgroups.Layout
    systemd: bool
    """Whether that is the init."""


class Host:
    """A running or powered-off host."""

    def __init__(self, place: Place, switch: Switch) -> None:
        """Describe it; `power_on` boots it."""
        self.name = place.name
        self.address = place.address
        self.disk = place.disk
        """Keeps what the host has on its disk, e.g. its /var/lib/containers as `containers`."""
        self.pid = 0
        """Its init, as this machine counts; 0: it is off."""
        self.engine: Engine = "podman"
        """The one that its jobs are on."""
        self._place = place
        self._switch = switch
        self._cgroups = cgroups.Cgroups([], [])
        self._unshare: subprocess.Popen[bytes] | None = None
        self._started: list[subprocess.Popen[str]] = []

    def power_on(self) -> None:
        """Boot it; its disk is as it was."""
        self.begin_boot()
        self.end_boot()

    def begin_boot(self) -> None:
        """Start its first process."""
        place = self._place
        place.disk.mkdir(parents=True, exist_ok=True)
        hierarchies = cgroups.hierarchies(place.layout) if place.layout == "v1" else []
        environment = {
            **_ENVIRONMENT,
            "NAME": place.name,
            "ROOT": str(place.root),
            "DISK": str(place.disk),
            "SOURCE": str(REPOSITORY),
            "MACHINE": str(place.machine),
            "HOSTS": place.hosts,
            "SYSTEMD": "yes" if place.systemd else "",
            "HIERARCHIES": " ".join(hierarchy.options for hierarchy in hierarchies),
        }
        boot = [str(Path(__file__).with_name("boot.sh"))]
        boot += [f"{name}={path}" for name, path in place.stores.items()]
        namespaces = "--mount --pid --net --uts --ipc".split()
        argv = [
            "setpriv",
            "--pdeathsig=KILL",
            "unshare",
            *namespaces,
            "--fork",
            "--kill-child",
            "bash",
        ]
        self._cgroups = cgroups.claim(place.layout, place.disk.name)
        with self._log.open("wb") as log:
            self._unshare = subprocess.Popen(
                self._cgroups.unshared([*argv, *boot]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the tests, which then end the lab
            )

    def end_boot(self) -> None:
        """Wait for its init, connect it to the others and start sshd."""
        self.pid = self._await_init()
        self._switch.plug(self.name, self.pid)
        network = f"""
        ip addr add {self.address}/24 dev eth0
        ip link set eth0 up
        ip route add default via {NETWORK}.1
        mkdir -p /run/sshd
        exec /usr/sbin/sshd
        """
        self.run(["sh", "-ec", network])

    def power_off(self) -> None:
        """Kill its init, which takes all its processes along, as pulling the plug does."""
        if self._unshare is None:
            return
        # first, or its kernel would close connections, and answer for a while after its end
        self._switch.unplug(self.name)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        else:
            self._unshare.kill()
        self._unshare.wait(30)
        cgroups.release(self._place.disk.name)  # no kernel has frozen ones after a boot
        self._unshare, self.pid = None, 0

    def cut_network(self) -> None:
        """Unplug it."""
        self._switch.set(self.name, "down")

    def mend_network(self) -> None:
        """Plug it in again."""
        self._switch.set(self.name, "up")

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        check: bool = True,
        timeout: float = 120,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to the end; LabError with its output if it fails and `check` is set."""
        done = subprocess.run(
            self._enter(argv),
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**_ENVIRONMENT, **(env or {})},
            check=False,
            start_new_session=True,
        )
        if check and done.returncode != 0:
            where = f"on {self.name}: "
            raise LabError(where + failure(argv, done.returncode, done.stdout + done.stderr))
        return done

    def popen(
        self, argv: Sequence[str], *, stdin: int | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a command; its output comes through pipes, its input too with `stdin=PIPE`.

        To kill the returned process kills the command; other signals need `Host.signal`.
        """
        process = subprocess.Popen(
            self._enter(argv),
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**_ENVIRONMENT, **(env or {})},
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def said(self) -> str:
        """Return what tells of a failed test: processes, logs, the end of outputs not yet read."""
        if not self.pid:
            return f"{self.name} is off\n"
        logs = sorted(self.path("/var/lib/spotrun").glob("*-supervisor.log"))
        parts = [self.run(["ps", "axf", "-o", "pid,etimes,args"], check=False).stdout]
        parts += [f"{it.name}:\n{it.read_text()}" for it in logs]
        for process in self._started:
            for pipe in (process.stdout, process.stderr):
                if pipe and not pipe.closed:
                    os.set_blocking(pipe.fileno(), False)
                    with suppress(BlockingIOError):
                        parts.append(os.read(pipe.fileno(), _MUCH).decode(errors="replace"))
        return "\n".join("\n".join(part.splitlines()[-_LINES:]) for part in parts)

    def signal(self, process: subprocess.Popen[str], number: signal.Signals) -> None:
        """Send a signal to a command that `popen` has started."""
        for pid in _children(process.pid):
            os.kill(pid, number)

    def attach(self, argv: Sequence[str]) -> int:
        """Run a command on this process's own terminal and return its exit status."""
        environment = {**_ENVIRONMENT, "TERM": os.environ.get("TERM", "xterm")}
        return subprocess.run(self._enter(argv), env=environment, check=False).returncode

    def path(self, path: str) -> Path:
        """Return a file of the host as this machine sees it."""
        return Path(f"/proc/{self.pid}/root") / path.lstrip("/")

    @property
    def runc(self) -> list[str]:
        """The command that has the engine's containers before it."""
        root = "/run/docker/runtime-runc/moby" if self.engine == "docker" else "/run/runc"
        return ["runc", "--root", root]

    def use_docker(self, images: Mapping[str, Path], *, containerd: bool = False) -> None:
        """Start Docker, which knows spotrun's runtime, with these archives of images by name.

        Its containers and images are containerd's own if wanted.
        """
        config = {"runtimes": {"spotrun": {"path": "/var/lib/spotrun/spotrun-oci"}}}
        self.path("/etc/docker").mkdir(exist_ok=True)
        self.path("/etc/docker/daemon.json").write_text(
            json.dumps({**config, "features": {"containerd-snapshotter": containerd}})
        )
        self.start_docker()
        for name, archive in images.items():
            self.load_image(archive, name, engine="docker")
        self.engine = "docker"

    def start_docker(self) -> None:
        """Start dockerd and wait until it answers."""
        script = """
        dockerd >/var/log/dockerd.log 2>&1 &
        until docker info; do
            kill -0 $! || { cat /var/log/dockerd.log; exit 1; }
            sleep 0.1
        done
        """
        self.run(["sh", "-c", script], timeout=60)

    def load_image(self, archive: Path, name: str, *, engine: Engine = "podman") -> None:
        """Load a saved image into the engine's own store; its ID is the same everywhere."""
        with archive.open("rb") as tar:
            loaded = subprocess.run(
                self._enter([engine, "load", "--quiet"]),
                stdin=tar,
                capture_output=True,
                env=_ENVIRONMENT,
                check=False,
            )
        said = (loaded.stdout + loaded.stderr).decode()
        found = re.search("[0-9a-f]{64}", said)
        if loaded.returncode != 0 or not found:
            raise LabError(f"on {self.name}: {failure([engine, 'load'], loaded.returncode, said)}")
        self.run([engine, "tag", found[0], name])

    def fill(self, path: str, megabytes: int) -> None:
        """Mount an empty file system of only that size at a path, until the power goes off."""
        self.run(["mkdir", "-p", path])
        self.run(["mount", "-t", "tmpfs", "-o", f"mode=755,size={megabytes}m", "tmpfs", path])

    @property
    def _log(self) -> Path:
        return self._place.disk / "boot.log"

    def _enter(self, argv: Sequence[str]) -> list[str]:
        if not self.pid:
            raise LabError(f"{self.name} is off")
        inside = ["nsenter", f"--target={self.pid}", "--all", *_AS_ROOT, *argv]
        return self._cgroups.joined(inside)

    def _await_init(self) -> int:
        deadline = time.monotonic() + _BOOT_SECONDS
        assert self._unshare
        while time.monotonic() < deadline and self._unshare.poll() is None:
            for pid in _children(self._unshare.pid):
                if Path(f"/proc/{pid}/root/run/booted").exists():
                    return pid
            time.sleep(0.005)
        raise LabError(f"{self.name} does not boot: {self._log.read_text()}")


def wait_until(condition: Sequence[str], host: Host, *, seconds: float = 30) -> None:
    """Wait until a command on the host succeeds."""
    deadline = time.monotonic() + seconds
    while host.run(condition, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise LabError(f"on {host.name}, not in {seconds} s: {' '.join(condition)}")
        time.sleep(0.05)


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
