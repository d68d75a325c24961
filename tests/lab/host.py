"""One host of the lab: namespaces on this machine with a disk, an address and an init."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.root import REPOSITORY
from tests.lab.shell import LabError, failure

_ENVIRONMENT = {
    "HOME": "/root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "xterm",
}
_BOOT_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Place:
    """What a host is made of."""

    name: str
    root: Path
    disk: Path
    machine: Path
    """Folder of this machine that the host sees as /mnt/machine."""
    images: Path | None
    """Store of the test images; None: the host has none."""
    layout: str
    """Cgroup layout, `v2` or `v1`."""


class Host:
    """A running or powered-off host."""

    def __init__(self, place: Place, address: str) -> None:
        """Describe it; `power_on` boots it."""
        self.name = place.name
        self.address = address
        self._place = place
        self._unshare: subprocess.Popen[bytes] | None = None
        self.pid = 0
        """Its init, as this machine counts; 0: it is off."""

    def power_on(self) -> None:
        """Boot it; its disk is as it was."""
        place, namespaces = self._place, "--mount --pid --net --uts --ipc --cgroup".split()
        place.disk.mkdir(parents=True, exist_ok=True)
        environment = {
            **_ENVIRONMENT,
            "NAME": place.name,
            "ROOT": str(place.root),
            "DISK": str(place.disk),
            "SOURCE": str(REPOSITORY),
            "IMAGES": str(place.images or ""),
            "LAYOUT": place.layout,
            "MACHINE": str(place.machine),
        }
        boot = ["bash", str(Path(__file__).with_name("boot.sh"))]
        argv = ["setpriv", "--pdeathsig=KILL", "unshare", *namespaces, "--fork", "--kill-child"]
        with (place.disk / "boot.log").open("wb") as log:
            self._unshare = subprocess.Popen(
                [*argv, *boot],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                preexec_fn=self._own_cgroups if place.layout == "v1" else None,  # noqa: PLW1509 # no threads here
            )
        self.pid = self._await_init(self._unshare)

    def serve_ssh(self) -> None:
        """Start sshd, once the host has its address."""
        self.run(["mkdir", "-p", "/run/sshd"])
        self.run(["/usr/sbin/sshd"])

    def power_off(self) -> None:
        """Kill its init, which takes all its processes along, as pulling the plug does."""
        if self._unshare is None:
            return
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        else:
            self._unshare.kill()
        self._unshare.wait(30)
        self._unshare, self.pid = None, 0

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
        )
        if check and done.returncode != 0:
            where = f"on {self.name}: "
            raise LabError(where + failure(argv, done.returncode, done.stdout + done.stderr))
        return done

    def popen(self, argv: Sequence[str]) -> subprocess.Popen[str]:
        """Start a command; its output comes through pipes."""
        return subprocess.Popen(
            self._enter(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_ENVIRONMENT,
        )

    def load_image(self, archive: Path, name: str) -> None:
        """Make an image of a tar archive of files, in the host's own store."""
        argv = self._enter(["podman", "import", "--quiet", "-", name])
        with archive.open("rb") as tar:
            subprocess.run(argv, stdin=tar, capture_output=True, env=_ENVIRONMENT, check=True)

    def path(self, path: str) -> Path:
        """Return a file of the host as this machine sees it."""
        return Path(f"/proc/{self.pid}/root") / path.lstrip("/")

    def start_docker(self) -> None:
        """Start dockerd and wait until it answers."""
        script = "dockerd >/var/log/dockerd.log 2>&1 & until docker info; do sleep 0.1; done"
        self.run(["sh", "-c", script], timeout=60)

    def fill(self, path: str, megabytes: int) -> None:
        """Mount a small file system at a path."""
        self.run(["mkdir", "-p", path])
        self.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", path])

    def _enter(self, argv: Sequence[str]) -> list[str]:
        if not self.pid:
            raise LabError(f"{self.name} is off")
        return ["nsenter", f"--target={self.pid}", "--all", "env", "--chdir=/root", *argv]

    def _await_init(self, unshare: subprocess.Popen[bytes]) -> int:
        deadline = time.monotonic() + _BOOT_SECONDS
        children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children")
        while time.monotonic() < deadline and unshare.poll() is None:
            pids = children.read_text().split()
            if pids and Path(f"/proc/{pids[0]}/root/run/booted").exists():
                return int(pids[0])
            time.sleep(0.01)
        raise LabError(f"{self.name} does not boot: {(self._place.disk / 'boot.log').read_text()}")

    def _own_cgroups(self) -> None:
        """Put this process into cgroups of its own, which become the roots of the host's."""
        for controller in Path("/sys/fs/cgroup").iterdir():
            if (controller / "cgroup.procs").exists() and controller.name != "unified":
                own = controller / f"spotrun-lab-{self._place.disk.name}"
                own.mkdir(exist_ok=True)
                for name in ("cpuset.cpus", "cpuset.mems"):
                    if (own / name).exists():
                        (own / name).write_text((controller / name).read_text())
                (own / "cgroup.procs").write_text(str(os.getpid()))


def wait_until(condition: Sequence[str], host: Host, *, seconds: float = 30) -> None:
    """Wait until a command on the host succeeds."""
    deadline = time.monotonic() + seconds
    while host.run(condition, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise LabError(f"on {host.name}, not in {seconds} s: {' '.join(condition)}")
        time.sleep(0.05)
