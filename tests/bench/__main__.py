"""`python -m tests.bench`: spotrun against Podman's own checkpoint and bare runc, side by side.

One PyTorch job under each, on one lab host of this machine; rounds are interleaved, medians count.
Compare only what stands in one run: the machine is shared. Writes `build/bench.json`.
"""

from rich.console import Console

from tests.bench import figures, job, report
from tests.bench.contenders import Podman, Spotrun, touch_memory
from tests.bench.rounds import ROUNDS, Samples, rounds
from tests.lab.host import Host
from tests.lab.lab import Lab

_WIDTH = 120
"""Columns that the widest table needs."""


def main() -> None:
    """Measure and report."""
    console = Console(soft_wrap=True, highlight=False)
    console.width = max(console.width, _WIDTH)
    with Lab() as lab:
        (host,) = lab.start(1, images=("torch",))
        spotrun, podman = Spotrun(host), Podman(host)
        resident = _begin(host, spotrun, podman)
        for line in report.conditions(ROUNDS, resident):
            console.print(line)
        samples = Samples()
        for number in rounds(host, spotrun, podman, samples):
            console.print(f"round {number} of {ROUNDS} is done")
    made = figures.of(samples)
    console.print(report.table(made), report.phases(samples))
    console.print(f"written: {report.write(made)}")


def _begin(host: Host, spotrun: Spotrun, podman: Podman) -> int:
    """Start both jobs, warm both ways up, and return the resident bytes of the smaller job."""
    for contender in (spotrun, podman):
        contender.start()
    for contender in (spotrun, podman):
        job.await_step(host, contender.container, 0)
        contender.checkpoint()
        contender.restore()
    spotrun.forget()
    touch_memory(host)
    return min(job.resident(host, contender.container) for contender in (spotrun, podman))


if __name__ == "__main__":
    main()
