"""restic, from Debian, with its defaults: what else one would store dumps with."""

import shutil
from pathlib import Path
from typing import Final

from tests.bench.child import timed
from tests.lab import apt
from tests.lab.cache import built
from tests.lab.host import Host
from tests.lab.root import debootstrap

_SUITE: Final = "trixie"
_PROGRAM: Final = "/usr/local/bin/restic"
_CACHE: Final = "/root/.cache/restic"


class Restic:
    """A repository in a folder of a host."""

    def __init__(self, host: Host, place: str) -> None:
        """Install the program."""
        self.place = place
        self._host = host
        self._env = {"RESTIC_REPOSITORY": place, "RESTIC_PASSWORD": "bench"}
        shutil.copy(built("restic", _SUITE, _build) / "restic", host.path(_PROGRAM))

    def make(self) -> None:
        """Make the repository, off the clock."""
        self._host.run([_PROGRAM, "init"], env=self._env)

    def store(self, folder: str) -> float:
        """Back a folder up, and return the wall seconds."""
        return timed(self._host, [_PROGRAM, "backup", folder], self._env)

    def remove(self) -> None:
        """Remove it with its cache."""
        self._host.run(["rm", "-r", self.place, _CACHE])


def _build(folder: Path) -> None:
    """Keep the program alone; the libraries it needs are on every host."""
    system = folder / "system"
    debootstrap(system, _SUITE, "restic", apt.mirror().source(_SUITE))
    (system / "usr/bin/restic").rename(folder / "restic")
    shutil.rmtree(system)
