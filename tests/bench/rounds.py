"""The measurement of checkpoints and restores: rounds in which each contender has its turn."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.bench import job
from tests.bench.contenders import Podman, Run, Spotrun, bare_dump, halted, shim_calls
from tests.lab.host import Host

ROUNDS = 3
_DUMP = "/run/bench-dump"


@dataclass(slots=True)
class Samples:
    """What was measured, one entry a round or call, in seconds."""

    checkpoint: list[Run] = field(default_factory=list)
    checkpoint_again: list[Run] = field(default_factory=list)
    """Of a job that has snapshots."""
    checkpoint_running: list[Run] = field(default_factory=list)
    second_running: list[Run] = field(default_factory=list)
    """Some steps after the one before."""
    restore: list[Run] = field(default_factory=list)
    podman_export: list[float] = field(default_factory=list)
    podman_import: list[float] = field(default_factory=list)
    runc_dump: list[float] = field(default_factory=list)
    shim: list[float] = field(default_factory=list)
    runc: list[float] = field(default_factory=list)


def rounds(host: Host, spotrun: Spotrun, podman: Podman, samples: Samples) -> Iterator[int]:
    """Measure, and yield the number of each round when it is done."""
    turns: list[tuple[str, Callable[[], None]]] = [
        (podman.container, lambda: _spotrun(host, spotrun, samples)),
        (spotrun.container, lambda: _podman(host, podman, samples)),
        (podman.container, lambda: _leave_running(host, spotrun, samples)),
    ]
    for number in range(ROUNDS):
        for idle, turn in turns[number % len(turns) :] + turns[: number % len(turns)]:
            with halted(host, idle):
                turn()
        yield number + 1
    samples.shim, samples.runc = shim_calls(host, spotrun.container)


def _spotrun(host: Host, spotrun: Spotrun, samples: Samples) -> None:
    before = job.last_step(host, spotrun.container)
    samples.checkpoint.append(spotrun.checkpoint())
    samples.restore.append(spotrun.restore())
    job.await_step(host, spotrun.container, before)
    spotrun.forget()


def _podman(host: Host, podman: Podman, samples: Samples) -> None:
    before = job.last_step(host, podman.container)
    samples.podman_export.append(podman.checkpoint())
    samples.podman_import.append(podman.restore())
    job.await_step(host, podman.container, before)


def _leave_running(host: Host, spotrun: Spotrun, samples: Samples) -> None:
    """Let spotrun and bare runc save the same running container, then spotrun again and again."""
    before = job.last_step(host, spotrun.container)
    samples.runc_dump.append(bare_dump(host, spotrun.container, _DUMP))
    host.run(["rm", "-r", _DUMP])
    job.await_step(host, spotrun.container, before)
    samples.checkpoint_running.append(spotrun.checkpoint_running())
    job.await_steps(host, spotrun.container)
    samples.second_running.append(spotrun.checkpoint_running())
    job.await_steps(host, spotrun.container)
    before = job.last_step(host, spotrun.container)
    samples.checkpoint_again.append(spotrun.checkpoint())
    spotrun.restore()
    job.await_step(host, spotrun.container, before)
    spotrun.forget()
