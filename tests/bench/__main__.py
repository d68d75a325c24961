"""`python -m tests.bench`: spotrun against others that do a part of the same, side by side.

All on one lab host of this machine; rounds are interleaved, medians count. Compare only what stands
in one run: the machine is shared. Writes `build/bench.json`.
"""

from rich.console import Console

from tests.bench import clients, disk, dumps, job, lifecycle, many, report, spot, starts, stored
from tests.bench.contenders import Podman, Spotrun, touch_memory
from tests.bench.figures import Figure
from tests.bench.rounds import ROUNDS, Samples, rounds
from tests.lab.host import Host
from tests.lab.lab import Lab

_WIDTH = 120
"""Columns that the widest table needs."""


def main() -> None:
    """Measure and report."""
    console = Console(soft_wrap=True, highlight=False)
    console.width = max(console.width, _WIDTH)
    with disk.journaled() as labs, Lab(labs) as lab:
        (host,) = lab.start(1, images=("torch", "busybox"))
        spotrun, podman = Spotrun(host), Podman(host)
        resident = _begin(host, spotrun, podman)
        for line in report.conditions(ROUNDS, resident):
            console.print(line)
        samples = Samples()
        for number in rounds(host, spotrun, podman, samples):
            console.print(f"checkpoints: round {number} of {ROUNDS} is done")
        made = lifecycle.figures(samples)
        made += _of_stores(host, console, spotrun.container)
    console.print(report.table(made), report.phases(samples))
    console.print(f"written: {report.write(made)}")


def _of_stores(host: Host, console: Console, container: str) -> list[Figure]:
    """Measure what needs no running job but two of its dumps."""
    made = many.measure(host, container)
    console.print("many snapshots: done")
    taken = dumps.take(host, container)
    host.run(["podman", "rm", "--all", "--force", "--time=0"])
    made = stored.measure(host, taken) + made
    dumps.remove(host)
    console.print("restic: done")
    made += clients.measure(host)
    console.print("S3 clients: done")
    made += spot.measure(host)
    console.print("jobs that are looked after: done")
    return made + starts.measure(host)


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
