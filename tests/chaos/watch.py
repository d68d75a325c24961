"""Who watches the job from outside, without spotrun: where it runs, and which steps it has lost.

The containers' cgroups say what runs: one that has processes and is not frozen. The engines' logs
say what was computed: each line with the time when it was, so that no two lives share one.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Final, Self

from tests.lab.host import Host

_PAUSE: Final = 0.05
_CGROUPS: Final = "/sys/fs/cgroup/libpod_parent"
_PYTHON: Final = "/opt/spotrun/venv/bin/python"
_PREFIX: Final = "libpod-"
_LOG: Final = "containers/storage/overlay-containers/{}/userdata/ctr.log"


@dataclass(frozen=True, slots=True)
class Copy:
    """One container of the job."""

    host: str
    container: str
    cgroup: Path
    log: Path


def running(hosts: Sequence[Host]) -> set[Copy]:
    """Return what runs at this instant; a host that is off has nothing."""
    return {copy for host in hosts for copy in _copies(host) if _runs(copy)}


def _copies(host: Host) -> Iterator[Copy]:
    with suppress(OSError):
        for cgroup in host.path(_CGROUPS).iterdir():
            if cgroup.name.startswith(_PREFIX):
                container = cgroup.name.removeprefix(_PREFIX)
                yield Copy(host.name, container, cgroup, host.disk / _LOG.format(container))


def _runs(copy: Copy) -> bool:
    try:
        told = (copy.cgroup / "cgroup.events").read_text()
    except OSError:
        return False
    return "populated 1" in told and "frozen 0" in told


@dataclass(frozen=True, slots=True)
class Loss:
    """Steps that a copy has to do again, since the ones before it went on after its snapshot."""

    steps: int
    since: float
    """When the snapshot's last line was written."""
    until: float
    """When the last line was written that is lost."""
    copy: Copy


@dataclass(slots=True)
class Watch:
    """Watches in a thread of its own, several times a second."""

    hosts: Sequence[Host]
    say: Callable[[str], None]
    twice: list[set[Copy]] = field(default_factory=list)
    """Copies that ran at the same time: seen by two looks, one right behind the other."""
    losses: list[Loss] = field(default_factory=list)
    """One for each time that the job has come back."""
    current: Copy | None = None
    """The copy that ran last."""
    _log: bytes = b""
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._over.set()
        self._thread.join()

    @property
    def steps(self) -> int:
        """How many steps the job has made, not counting those that were lost."""
        return _steps(self._log.splitlines())

    def _watch(self) -> None:
        while not self._over.wait(_PAUSE):
            found = running(self.hosts)
            if len(found) > 1 and len(both := found & running(self.hosts)) > 1:
                self._run_at_once(both)
            for copy in found:
                self._follow(copy)

    def _run_at_once(self, both: set[Copy]) -> None:
        if both not in self.twice:
            self.twice.append(both)
            self.say(f"run at the same time: {', '.join(it.host for it in both)}")

    def _follow(self, copy: Copy) -> None:
        if self.current is None or copy.container == self.current.container:
            self._log += _read(copy.log, len(self._log))
        else:
            self._came_back(copy)
        self.current = copy

    def _came_back(self, copy: Copy) -> None:
        log = _read(copy.log, 0)
        before, after = self._log.splitlines(), log.splitlines()
        pairs = zip(before, after, strict=False)
        common = sum(1 for _ in takewhile(lambda it: it[0] == it[1], pairs))
        lost = _steps(before[common:])
        self.losses.append(Loss(lost, _time(before[:common]), _time(before), copy))
        self._log = log
        self.say(f"goes on on {copy.host} from step {self.steps}, {lost} are lost")


def _read(log: Path, offset: int) -> bytes:
    try:
        with log.open("rb") as file:
            file.seek(offset)
            return file.read()
    except OSError:
        return b""


def _steps(lines: list[bytes]) -> int:
    return sum(b" step " in line for line in lines)


def _time(lines: list[bytes]) -> float:
    """Return the time of the last line."""
    return datetime.fromisoformat(lines[-1].split()[0].decode()).timestamp() if lines else 0


class Commits:
    """Reads from `on_store` which snapshots are committed, and notes those that vanish."""

    def __init__(self, keeper: Host, store: str) -> None:
        """Have it started on the store's own host, where it is heard whatever is cut."""
        self.seen: list[str] = []
        """In their order."""
        self.vanished: set[str] = set()
        self._telling = keeper.popen([_PYTHON, "-m", "tests.chaos.on_store", store, "train"])
        self._thread = threading.Thread(target=self._read, name="commits", daemon=True)

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._telling.kill()
        self._telling.communicate()
        self._thread.join()

    def _read(self) -> None:
        for line in self._telling.stdout or ():
            found = json.loads(line)
            self.vanished |= set(self.seen) - set(found)
            self.seen += [it for it in found if it not in self.seen]
