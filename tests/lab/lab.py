"""A lab: hosts on a bridge, gone without a trace when it ends, however it ends.

Everything hangs on processes that the kernel kills with their parent: the bridge lives in the
network namespace of a process, the mounts in those of the hosts. What remains of a lab whose
owner was killed is its folder, which the next lab sweeps.
"""

import fcntl
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.cache import CACHE
from tests.lab.host import Host, Place
from tests.lab.images import Image, store
from tests.lab.root import root
from tests.lab.shell import call

_NETWORK = "10.99.0"


class Lab:
    """Context manager that owns hosts."""

    def __init__(self) -> None:
        """Use as `with Lab() as lab: lab.start(2)`."""
        self.hosts: list[Host] = []

    def __enter__(self) -> Self:
        """Claim a folder, and make the bridge."""
        _sweep()
        self._folder = CACHE / "labs" / f"{os.getpid()}-{time.monotonic_ns()}"
        self._folder.mkdir(parents=True)
        self._claim = (self._folder / "lock").open("w")
        fcntl.flock(self._claim, fcntl.LOCK_EX)
        self.shared = self._folder / "machine"
        self.shared.mkdir()
        self._switch = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "unshare", "--net", "sleep", "infinity"],
            stdin=subprocess.DEVNULL,
        )
        while Path(f"/proc/{self._switch.pid}/comm").read_text() != "sleep\n":
            time.sleep(0.002)
        self._ip("link", "add", "br0", "type", "bridge", "forward_delay", "0")
        self._ip("addr", "add", f"{_NETWORK}.1/24", "dev", "br0")
        self._ip("link", "set", "br0", "up")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process, then remove the folder."""
        for host in self.hosts:
            host.power_off()
        self._switch.kill()
        self._switch.wait()
        _remove(self._folder)
        self._claim.close()

    def start(
        self, count: int, *, images: tuple[Image, ...] = ("busybox",), layout: str = "v2"
    ) -> list[Host]:
        """Boot hosts that reach each other and, unless `images` is empty, share test images."""
        return [self._start(store(images) if images else None, layout) for _ in range(count)]

    def power_on(self, host: Host) -> None:
        """Boot a host that was powered off, with its old address."""
        host.power_on()
        self._connect(host)

    def cut_network(self, host: Host) -> None:
        """Unplug a host."""
        self._ip("link", "set", host.name, "down")

    def mend_network(self, host: Host) -> None:
        """Plug it in again."""
        self._ip("link", "set", host.name, "up")

    def _start(self, images: Path | None, layout: str) -> Host:
        number = len(self.hosts)
        place = Place(
            name=f"host-{chr(ord('a') + number)}",
            root=root(),
            disk=self._folder / f"{self._folder.name}-{number}",
            machine=self.shared,
            images=images,
            layout=layout,
        )
        host = Host(place, f"{_NETWORK}.{number + 10}")
        self.hosts.append(host)
        self.power_on(host)
        return host

    def _connect(self, host: Host) -> None:
        self._ip("link", "add", host.name, "type", "veth", "peer", "eth0", "netns", str(host.pid))
        self._ip("link", "set", host.name, "master", "br0", "up")
        host.run(["ip", "addr", "add", f"{host.address}/24", "dev", "eth0"])
        host.run(["ip", "link", "set", "eth0", "up"])
        host.run(["ip", "route", "add", "default", "via", f"{_NETWORK}.1"])
        names = [f"{_NETWORK}.{number + 10} host-{chr(ord('a') + number)}" for number in range(20)]
        host.path("/etc/hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
        host.serve_ssh()

    def _ip(self, *arguments: str) -> None:
        call("nsenter", f"--target={self._switch.pid}", "--net", "ip", *arguments)


def _sweep() -> None:
    """Remove the folders of labs whose owner is dead."""
    for folder in (CACHE / "labs").glob("*"):
        try:
            with (folder / "lock").open("w") as claim:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
        except OSError:
            continue  # it is in use, or another lab sweeps it


def _remove(folder: Path) -> None:
    """Remove a lab's folder and the cgroups of its hosts."""
    for own in Path("/sys/fs/cgroup").glob(f"*/spotrun-lab-{folder.name}-*"):
        for inner, _, _ in sorted(os.walk(own), reverse=True):
            Path(inner).rmdir()
    shutil.rmtree(folder, ignore_errors=True)
