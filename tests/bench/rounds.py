"""The measurement: rounds in which every contender has its turn."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.bench import job
from tests.bench.contenders import Podman, Run, Spotrun, bare_dump, shim_calls
from tests.lab.host import Host

ROUNDS = 3


@dataclass(slots=True)
class Samples:
    """What was measured, one entry a round or call, in seconds."""

    checkpoint: list[Run] = field(default_factory=list)
    checkpoint_running: list[Run] = field(default_factory=list)
    restore: list[Run] = field(default_factory=list)
    podman_export: list[float] = field(default_factory=list)
    podman_import: list[float] = field(default_factory=list)
    runc_dump: list[float] = field(default_factory=list)
    shim: list[float] = field(default_factory=list)
    runc: list[float] = field(default_factory=list)


def rounds(host: Host, spotrun: Spotrun, podman: Podman, samples: Samples) -> Iterator[int]:
    """Measure, and yield the number of each round when it is done."""
    turns: list[Callable[[], None]] = [
        lambda: _spotrun(host, spotrun, samples),
        lambda: _podman(host, podman, samples),
        lambda: _leave_running(host, spotrun, samples),
    ]
    for number in range(ROUNDS):
        for turn in turns[number % len(turns) :] + turns[: number % len(turns)]:
            turn()
        yield number + 1
    samples.shim, samples.runc = shim_calls(host, spotrun.container)


def _spotrun(host: Host, spotrun: Spotrun, samples: Samples) -> None:
    before = _step(host, spotrun.container)
    samples.checkpoint.append(spotrun.checkpoint())
    samples.restore.append(spotrun.restore())
    job.await_step(host, spotrun.container, before)
    spotrun.forget()


def _podman(host: Host, podman: Podman, samples: Samples) -> None:
    before = _step(host, podman.container)
    samples.podman_export.append(podman.checkpoint())
    samples.podman_import.append(podman.restore())
    job.await_step(host, podman.container, before)


def _leave_running(host: Host, spotrun: Spotrun, samples: Samples) -> None:
    """Let spotrun and bare runc save the same running container."""
    before = _step(host, spotrun.container)
    samples.runc_dump.append(bare_dump(host, spotrun.container))
    job.await_step(host, spotrun.container, before)
    samples.checkpoint_running.append(spotrun.checkpoint_running())
    job.await_step(host, spotrun.container, before)
    spotrun.forget()


def _step(host: Host, container: str) -> int:
    found = job.step(host, container)
    if found is None:
        raise job.JobLostError(f"{container} has written nothing")
    return found
