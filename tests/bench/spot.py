"""What it costs a job to be looked after, and how soon it is stored on a notice and goes on."""

import subprocess
import time
from statistics import median
from typing import Final

from tests.bench import job
from tests.bench.contenders import Podman
from tests.bench.figures import Figure
from tests.e2e.jobs import JOBS, spotrun
from tests.lab.host import Host
from tests.lab.images import name

_JOB: Final = "tended"
_BUSY: Final = ("python3", "/jobs/train.py", "1000000", "512")
"""Steps without a pause."""
_EVERY: Final = 10
_SECONDS: Final = 40
"""Of each run whose pace is measured."""
_ROUNDS: Final = 2


def measure(host: Host) -> list[Figure]:
    """Compare with the same job under plain Podman, which must be free of other jobs."""
    host.run(["podman", "rm", "--all", "--force", "--time=0"])
    return [_pace(host), *_leaving(host)]


def _pace(host: Host) -> Figure:
    """Compare the steps of a job that is saved every ten seconds with one that never is.

    It uses all processors, so that it loses each second of storing; `auto` saves far less often.
    """
    plain, tended = [], []
    for _ in range(_ROUNDS):
        host.run(["podman", "run", "-d", f"--name={_JOB}", *job.OPTIONS, job.IMAGE, *_BUSY])
        plain.append(_steps(host))
        host.run(["podman", "rm", "--force", "--time=0", _JOB])
        host.run(_command(f"--every={_EVERY}s", "-d", words=_BUSY))
        tended.append(_steps(host))
        host.run(["spotrun", "rm", "--force", "--snapshots", _JOB])
    what = f"pace_saved_every_{_EVERY}_s"
    return Figure(what, median(tended), "steps", median(plain), "never saved")


def _steps(host: Host) -> float:
    """Return how many steps the job makes, once it runs."""
    job.await_step(host, _JOB, 0)
    first = job.last_step(host, _JOB)
    time.sleep(_SECONDS)
    return job.last_step(host, _JOB) - first


def _leaving(host: Host) -> list[Figure]:
    """Compare with Podman's export and import of the same job."""
    podman = Podman(host)
    podman.start()
    job.await_step(host, podman.container, 0)
    stored, export, back, imported = [], [], [], []
    running = host.popen(_command("--every=15s", words=job.WORDS))
    time.sleep(30)  # a snapshot is there, as ever
    for _ in range(_ROUNDS):
        stored.append(_notice(host, running))
        begun = time.monotonic()
        running = host.popen(_command("--every=15s", words=job.WORDS))
        _await_new_step(host, running)
        back.append(time.monotonic() - begun)
        before = job.last_step(host, podman.container)
        export.append(podman.checkpoint())
        begun = time.monotonic()
        podman.restore()
        job.await_step(host, podman.container, before)
        imported.append(time.monotonic() - begun)
        time.sleep(20)
    events = spotrun(host, "history", _JOB)["events"]
    frozen = [it["frozen_seconds"] for it in events if it["frozen_seconds"]]
    host.run(["spotrun", "rm", "--force", "--snapshots", _JOB])
    running.communicate(timeout=60)
    return [
        Figure("notice_to_stored", median(stored), "s", median(export), "Podman's export"),
        Figure("stored_to_first_step", median(back), "s", median(imported), "Podman's import"),
        Figure("periodic_frozen", median(frozen), "s", median(stored), "notice to stored"),
    ]


def _notice(host: Host, running: subprocess.Popen[str]) -> float:
    begun = time.monotonic()
    host.run(["spotrun", "notice", "--in=120s", _JOB])
    running.communicate(timeout=120)
    assert running.returncode == 85
    return time.monotonic() - begun


def _await_new_step(host: Host, running: subprocess.Popen[str]) -> None:
    while not host.run(["podman", "ps", "-q", f"--filter=name=^{_JOB}$"]).stdout:
        if running.poll() is not None:
            raise job.JobLostError(running.communicate()[1])
        time.sleep(0.05)
    job.await_step(host, _JOB, 0)


def _command(*options: str, words: tuple[str, ...]) -> list[str]:
    line = ["spotrun", "run", f"--job={_JOB}", *options, "-v", f"{JOBS}:/jobs:ro"]
    return [*line, name("torch"), *words]
