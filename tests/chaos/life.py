"""The life of one job on three hosts to which everything happens."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.events import Event, Kind
from tests.chaos.scheduler import Scheduler, said, spawn
from tests.chaos.watch import Commits, Copy, Loss, Watch
from tests.e2e.jobs import JOBS, spotrun
from tests.e2e.s3 import served
from tests.e2e.spot import history, log, output
from tests.lab.host import Host
from tests.lab.images import name
from tests.lab.lab import Lab

EVERY: Final = 3.0
"""Seconds between two snapshots."""
STEP: Final = 0.25
"""Seconds of a step, at least."""
_SHARE: Final = 0.45
"""Of the time of the events, the job's steps take so much: it outlives them, by not too much."""
_CALM: Final = 70
"""Steps for the time until the first snapshot, and for that behind the last event."""
_BEGUN_AGAIN: Final = 6.0
"""Seconds in which a supervisor that was killed has begun again, on a machine with much to do."""
_FIRST: Final = 120.0
"""Seconds until the first snapshot, which takes the image along."""
_COMES_BACK: Final = 90.0
"""Seconds until the job runs again after the last event, whatever that was."""
_TICK: Final = 0.1
_SOON: Final = 4.0
_SOMETIMES: Final = 0.4
"""Share of the events of a kind that come in its rarer form."""
_SAVE: Final = "checkpoint --leave-running"
_VICTIMS: Final = {
    Kind.GUARD: ("supervise train", slice(1)),
    Kind.SUPERVISOR: ("supervise train", slice(1, 2)),
    Kind.ALL: (f"spotrun run --job|supervise train|{_SAVE}", slice(None)),
}
"""Command lines, and which of the processes with such a one."""


@dataclass(frozen=True, slots=True)
class ComeBack:
    """A restore, as the job's history has it."""

    rung: str
    snapshot: str
    newest: str
    """The one that it should have been: the last with processes that was committed before."""
    reason: str
    """Why another rung failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What there is to say of a life."""

    events: int
    """So many there were until the job had ended."""
    output: list[str]
    """Of the whole life, on stdout."""
    reference: list[str]
    """Of one to which nothing happens."""
    twice: list[set[Copy]]
    losses: list[Loss]
    limits: list[int]
    """Steps that each loss may have at most."""
    ends: int
    """How often it has come to its end."""
    vanished: set[str]
    """Snapshots that were committed and are not any more."""
    comebacks: list[ComeBack]


class Stuck(AssertionError):
    """The job does not come back."""


def live(lab: Lab, seed: int, events: Sequence[Event], say: Callable[[str], None]) -> Outcome:
    """Let a job live through these events to its end, and tell of it."""
    *hosts, keeper = lab.start(4, images=("torch",))
    steps = _CALM + int(sum(it.after for it in events) * _SHARE / STEP)
    train = [name("torch"), "python3", "/jobs/train.py", str(steps), "256", "0"]
    binds = ["-v", f"{JOBS}:/jobs:ro"]
    with served(keeper, *hosts) as store:
        line = ["spotrun", "run", "--job=train", f"--store={store}", f"--every={EVERY:g}s"]
        reference = spawn(keeper, "podman", "run", "--name=reference", *binds, *train)
        scheduler = Scheduler(hosts, [*line, *binds, *train, str(STEP)], seed, say)
        with Watch(hosts, say) as watch, Commits(keeper, store) as commits:
            world = _World(keeper, hosts, scheduler, watch, commits, say)
            try:
                count = world.befall_all(events)
                final = next(it for it in hosts if watch.current and it.name == watch.current.host)
                reference.wait(_FIRST)
                written, past = output(final), history(final, store)
                undisturbed = keeper.run(["podman", "logs", "reference"]).stdout.splitlines()
                stored = spotrun(final, "snapshots", "train", f"--store={store}")
                stored = [it for it in stored if it["snapshot"] in commits.seen]
            except Exception as error:
                error.add_note(world.told())
                raise
            finally:
                scheduler.close()
    return Outcome(
        events=count,
        output=written,
        reference=undisturbed,
        twice=watch.twice,
        losses=watch.losses,
        limits=[_limit(it, world.times, past) for it in watch.losses],
        ends=sum(it["kind"] == "ended" and it["reason"] == "exit code 0" for it in past),
        vanished=commits.vanished,
        comebacks=[_comeback(it, stored) for it in past if it["kind"] == "restored"],
    )


def _limit(loss: Loss, times: Sequence[float], past: Sequence[dict[str, Any]]) -> int:
    """Return how many steps may be lost at most.

    Those of the time between two snapshots: the interval, and what both took, since the first has
    what was there when it began, and the other one was not yet stored when all was over. Each event
    since then may have undone the one that was under way, or killed who makes them.
    """
    took = max([it["seconds"] for it in past if it["kind"] == "snapshot"][1:], default=0.0)
    span = EVERY + 2 * took + _BEGUN_AGAIN
    events = sum(loss.since <= it <= loss.until for it in times)
    return int((1 + events) * span / STEP)


def _comeback(told: dict[str, Any], stored: Sequence[dict[str, Any]]) -> ComeBack:
    live = (it for it in stored if it["kind"] == "live")
    before = [it["snapshot"] for it in live if it["epoch"] < told["epoch"]]
    return ComeBack(told["rung"], told["snapshot"], max(before, default=""), told["reason"])


@dataclass(slots=True)
class _World:
    """The hosts, and what is to be mended again."""

    keeper: Host
    """The host of the store."""
    hosts: list[Host]
    scheduler: Scheduler
    watch: Watch
    commits: Commits
    say: Callable[[str], None]
    times: list[float] = field(default_factory=list)
    """When something happened."""
    _mends: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    def befall_all(self, events: Sequence[Event]) -> int:
        """Let it all happen from the first snapshot on, await the job's end, and count them."""
        self._await(lambda: self.commits.seen, _FIRST)
        count = 0
        for event in events:
            self._pass(event.after)
            if self.scheduler.ended:
                break
            self._befall(event)
            count += 1
        self.say(f"from here on all is well; step {self.watch.steps}")
        for _, mend in self._mends:
            mend()
        self._mends.clear()
        while not self.scheduler.ended:
            self._await_step()
        return count

    def told(self) -> str:
        """Return what all have said, for whoever looks for the reason."""
        parts = []
        for host in [it for it in self.hosts if it.pid]:
            parts += [f"=== {host.name}", said(host), "--- its supervisors:", log(host)]
            for argv in (
                ["ps", "ax", "-o", "pid,ppid,etimes,stat,args"],
                ["podman", "ps", "--all"],
            ):
                parts += [f"--- {argv[0]}:", host.run(argv, check=False).stdout]
        return "\n".join(parts)

    def _await_step(self) -> None:
        made = self.watch.steps
        self._await(lambda: self.watch.steps > made, _COMES_BACK)

    def _await(self, holds: Callable[[], object], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not holds() and not self.scheduler.ended:
            if time.monotonic() > end:
                raise Stuck(f"the job is stuck at step {self.watch.steps}")
            self._pass(_TICK)

    def _pass(self, seconds: float) -> None:
        """Let time go by."""
        end = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            for due in [it for it in self._mends if it[0] <= now]:
                self._mends.remove(due)
                due[1]()
            self.scheduler.tick()
            if self.scheduler.ended or now >= end:
                return
            time.sleep(_TICK)

    def _befall(self, event: Event) -> None:
        """Let it happen where the job is, or is to come up if that host is off."""
        copy, run = self.watch.current, self.scheduler.host
        host = next((it for it in self.hosts if copy and it.name == copy.host and it.pid), run)
        assert host
        self.say(f"{event.kind} on {host.name}, step {self.watch.steps}, {event.lasts:.1f} s")
        if event.kind is Kind.STORE:
            self._store_down(event)
        elif host.pid:
            self._befall_host(event, host)
        self.times.append(time.time())

    def _befall_host(self, event: Event, host: Host) -> None:
        match event.kind:
            case Kind.NOTICE if event.chance < _SOMETIMES:
                self.scheduler.signal(signal.SIGTERM)
            case Kind.NOTICE:
                spawn(host, "spotrun", "notice", f"--in={event.lasts * 2:.0f}s", "train")
            case Kind.RUN:
                self.scheduler.signal(signal.SIGKILL)
            case Kind.SAVING:
                self._kill_saving(host, event.chance)
            case Kind.CONTAINER:
                self._kill_container()
            case Kind.POWER:
                host.power_off()
                self._later(event, host.power_on)
            case Kind.NETWORK:
                self._cut(event, host)
            case kind:
                pattern, which = _VICTIMS[kind]
                _kill(host, _pids(host, pattern)[which])
        if event.kind is Kind.ALL:
            self.scheduler.start(host)
            self._pass(_SOON)

    def _kill_saving(self, host: Host, chance: float) -> None:
        """Wait for a snapshot to be begun, and a part of it."""
        end = time.monotonic() + _SOON
        while not (found := _pids(host, _SAVE)) and time.monotonic() < end:
            self._pass(_TICK)
        time.sleep(chance)
        _kill(host, found)

    def _kill_container(self) -> None:
        if self.watch.current:
            with suppress(OSError, ValueError):
                first = (self.watch.current.cgroup / "cgroup.procs").read_text().split()[0]
                os.kill(int(first), signal.SIGKILL)

    def _store_down(self, event: Event) -> None:
        if event.chance < _SOMETIMES:
            self._cut(event, self.keeper)
            return
        server = self.keeper.run(["pgrep", "-x", "weed"]).stdout.split()
        self.keeper.run(["kill", "-STOP", *server])
        self._later(event, lambda: self.keeper.run(["kill", "-CONT", *server]))

    def _cut(self, event: Event, host: Host) -> None:
        host.cut_network()
        self.scheduler.cut[host] = time.monotonic()

        def mend() -> None:
            self.scheduler.cut.pop(host, None)
            if host.pid:  # else it is plugged in when the power is on
                host.mend_network()

        self._later(event, mend)

    def _later(self, event: Event, mend: Callable[[], object]) -> None:
        self._mends.append((time.monotonic() + event.lasts, mend))


def _pids(host: Host, pattern: str) -> list[str]:
    """Return the processes of a host with such a command line, in their order."""
    return host.run(["pgrep", "--full", pattern], check=False).stdout.split()


def _kill(host: Host, pids: Sequence[str]) -> None:
    if pids:
        host.run(["kill", "-KILL", *pids], check=False)
