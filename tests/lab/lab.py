"""A lab: hosts on a bridge, gone without a trace when it ends, however it ends.

Everything hangs on processes that the kernel kills with their parent: the bridge lives in the
network namespace of a process, the mounts in those of the hosts. What remains of a lab whose
owner was killed is its folder and its cgroups, which the next lab sweeps.
"""

import fcntl
import os
import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab import cgroups
from tests.lab.cache import CACHE
from tests.lab.host import Engine, Host, Place
from tests.lab.images import Image, archive, name, store
from tests.lab.root import root
from tests.lab.switch import NETWORK, Switch

_FIRST = 10
"""Last part of the first host's address."""
_NAMES = [f"host-{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]


class Lab:
    """Context manager that owns hosts."""

    def __init__(self, labs: Path = CACHE / "labs") -> None:
        """Use as `with Lab() as lab: lab.start(2)`; the hosts' disks are below `labs`."""
        self.hosts: list[Host] = []
        self._labs = labs
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        """Claim a folder, and make the bridge."""
        labs = self._labs
        labs.mkdir(parents=True, exist_ok=True)
        self._folder = labs / f"{os.getpid()}-{time.monotonic_ns()}"
        with ExitStack() as ending:
            with labs.with_suffix(".lock").open("w") as alone:  # who sweeps takes the unclaimed
                fcntl.flock(alone, fcntl.LOCK_EX)
                _sweep(labs)
                self._folder.mkdir()
                claim = ending.enter_context((self._folder / "lock").open("w"))
                fcntl.flock(claim, fcntl.LOCK_EX)
            ending.callback(_remove, self._folder)
            self.shared = self._folder / "machine"
            self.shared.mkdir()
            self._switch = Switch()
            ending.callback(self._switch.close)
            self._ending = ending.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process, then remove the folder."""
        self._ending.close()

    def start(
        self,
        count: int,
        *,
        images: tuple[Image, ...] = ("busybox",),
        layout: cgroups.Layout = "v2",
        engine: Engine = "podman",
        systemd: bool = False,
    ) -> list[Host]:
        """Boot hosts that reach each other and, unless `images` is empty, have test images."""
        stores = {image: store(image) for image in images}
        system = root()
        started = []
        for _ in range(count):
            number = len(self.hosts)
            place = Place(
                name=_NAMES[number],
                address=f"{NETWORK}.{_FIRST + number}",
                root=system,
                disk=self._folder / f"{self._folder.name}-{number}",
                machine=self.shared,
                stores=stores,
                hosts=_hosts_file(),
                layout=layout,
                systemd=systemd,
            )
            host = Host(place, self._switch)
            self.hosts.append(host)
            self._ending.callback(host.power_off)
            host.begin_boot()
            started.append(host)
        for host in started:
            host.end_boot()
            if engine == "docker":
                host.use_docker({name(image): archive(image) for image in images})
        return started


def _hosts_file() -> str:
    names = [f"{NETWORK}.{_FIRST + number} {name}" for number, name in enumerate(_NAMES)]
    return "\n".join(["127.0.0.1 localhost", *names])


def _sweep(labs: Path) -> None:
    """Remove the folders of labs whose owner is dead."""
    for folder in labs.glob("*"):
        try:
            with (folder / "lock").open("w") as claim:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
        except OSError:
            continue  # it is in use, or another lab sweeps it


def _remove(folder: Path) -> None:
    """Remove a lab's folder and the cgroups of its hosts."""
    cgroups.release(f"{folder.name}*")
    shutil.rmtree(folder, ignore_errors=True)
