"""How tests drive spotrun on lab hosts."""

import json
import time
from typing import Any

from tests.lab.host import Host
from tests.lab.images import Image, name

JOBS = "/opt/spotrun/src/tests/jobs"
"""Where hosts see this repository's test jobs."""


def spotrun(host: Host, *arguments: str) -> Any:  # noqa: ANN401 # any JSON
    """Run a verb on a host and return the data of its JSON result."""
    done = host.run(["spotrun", *arguments, "--format", "json"], timeout=300)
    return json.loads(done.stdout)["data"]


def refused(host: Host, *arguments: str) -> dict[str, Any]:
    """Run a verb that must fail with 125, and return its error."""
    done = host.run(["spotrun", *arguments, "--format", "json"], check=False, timeout=300)
    assert done.returncode == 125, (done.stdout, done.stderr)
    envelope = json.loads(done.stdout)
    assert envelope["status"] == "error"
    error: dict[str, Any] = envelope["errors"][0]
    return error


def start(host: Host, job: str, image: Image, *words: str, options: tuple[str, ...] = ()) -> None:
    """Start a job that sees the test jobs as /jobs."""
    binds = ["-v", f"{JOBS}:/jobs:ro"]
    host.run(["spotrun", "run", "-d", "--name", job, *binds, *options, name(image), *words])


def migrate(source: Host, target: Host, job: str) -> Any:  # noqa: ANN401 # any JSON
    """Move a job and return the result."""
    return spotrun(source, "migrate", job, "--to", f"ssh://root@{target.name}")


def status(host: Host, job: str) -> str | None:
    """Return a job's status on a host, or None."""
    rows = {row["job"]: row["status"] for row in spotrun(host, "ps", "--all")}
    found: str | None = rows.get(job)
    return found


def lines(host: Host, job: str) -> list[str]:
    """Return what a job has written to stdout in its whole life."""
    return host.run(["spotrun", "logs", job]).stdout.splitlines()


def await_lines(host: Host, job: str, count: int, *, seconds: float = 60) -> None:
    """Wait until a job has written that many lines."""
    deadline = time.monotonic() + seconds
    while len(lines(host, job)) < count:
        assert time.monotonic() < deadline, lines(host, job)[-3:]
        time.sleep(0.1)


def await_end(host: Host, job: str, *, seconds: float = 120) -> int:
    """Wait until a job has ended, and return its exit code."""
    return int(host.run([host.engine, "wait", job], timeout=seconds).stdout)
