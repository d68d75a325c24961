"""The job that is measured, and the proof that it goes on."""

import re
import time

from tests.e2e.jobs import JOBS
from tests.lab.host import Host
from tests.lab.images import name

OPTIONS = ("-v", f"{JOBS}:/jobs:ro")
IMAGE = name("torch")
WORDS = ("python3", "/jobs/train.py", "20000", "5888", "0", "0.4")
"""Enough steps for two hours; mostly asleep, so that the jobs do not disturb each other."""

_APART = 3
"""Steps between two snapshots."""
_SECONDS = 60
_STEP = re.compile(r"step (\d+) loss ")


class JobLostError(Exception):
    """The job does not go on, or not from where it was: the bench has no result."""


def step(host: Host, container: str) -> int | None:
    """Return the last step in a job's log; None: it has written none."""
    said = host.run(["podman", "logs", "--tail=1", container]).stdout
    found = _STEP.match(said)
    return int(found[1]) if found else None


def await_step(host: Host, container: str, least: int) -> None:
    """Wait until a job writes a new step; it must be number `least` or a later one."""
    first = step(host, container)
    deadline = time.monotonic() + _SECONDS
    while (last := step(host, container)) == first:
        if time.monotonic() > deadline:
            raise JobLostError(f"{container} stays at step {last}")
        time.sleep(0.05)
    if last is None or last < least:
        raise JobLostError(f"{container} was at step {least} and has written step {last} now")


def last_step(host: Host, container: str) -> int:
    """Return the last step of a job that has written some."""
    found = step(host, container)
    if found is None:
        raise JobLostError(f"{container} has written nothing")
    return found


def await_steps(host: Host, container: str) -> None:
    """Wait until a job is some steps further."""
    for _ in range(_APART):
        await_step(host, container, last_step(host, container) + 1)


def resident(host: Host, container: str) -> int:
    """Return the resident memory of a job's first process, in bytes."""
    pid = host.run(["podman", "inspect", "--format={{.State.Pid}}", container]).stdout.strip()
    lines = host.run(["cat", f"/proc/{pid}/status"]).stdout.splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))
