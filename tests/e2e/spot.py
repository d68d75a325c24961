"""How tests drive jobs that come back by themselves."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from tests.e2e.jobs import JOBS, spotrun
from tests.hooks.notices.on_host import ADDRESSES
from tests.lab.host import Host
from tests.lab.images import Image, name
from tests.lab.shell import LabError

LEASE: Final = 6
"""Seconds of a lease in tests: shorter than anybody's."""
ENVIRONMENT: Final = {"SPOTRUN_LEASE_SECONDS": str(LEASE)}
COUNT: Final = ("sh", "/jobs/count.sh", "100000", "0")
_NAMES: Final = {"gcp": "metadata.google.internal", "tencent": "metadata.tencentyun.com"}
_PYTHON: Final = "/opt/spotrun/venv/bin/python"


class Spot:
    """One job by one command line, whatever host it is typed on."""

    def __init__(
        self,
        store: str,
        image: Image = "busybox",
        words: tuple[str, ...] = COUNT,
        *options: str,
        job: str = "train",
    ) -> None:
        """Have it run those words."""
        own = (f"--job={job}", f"--store={store}", *options)
        self._line = (*own, "-v", f"{JOBS}:/jobs:ro", name(image), *words)

    @property
    def line(self) -> list[str]:
        """The command line."""
        return ["spotrun", "run", "-d", *self._line]

    def run(self, host: Host, *options: str) -> subprocess.CompletedProcess[str]:
        """Run it in the background of a host."""
        argv = ["spotrun", "run", "-d", *options, *self._line]
        return host.run(argv, check=False, env=ENVIRONMENT)

    def attached(self, host: Host, *options: str) -> subprocess.Popen[str]:
        """Run it in the foreground."""
        return host.popen(["spotrun", "run", *options, *self._line], env=ENVIRONMENT)


def log(host: Host) -> str:
    """Return what the supervisor of the job has said on a host."""
    path = host.path("/var/lib/spotrun/train-supervisor.log")
    return path.read_text() if path.exists() else ""


def history(host: Host, store: str) -> list[dict[str, Any]]:
    """Return what has happened to the job."""
    events: list[dict[str, Any]] = spotrun(host, "history", "train", f"--store={store}")["events"]
    return events


def kinds(host: Host, store: str) -> list[str]:
    """Return that in words, but for snapshots."""
    told = [f"{it['kind']} {it['rung'] or ''}".strip() for it in history(host, store)]
    return [it for it in told if it != "snapshot"]


def snapshots(host: Host, store: str) -> list[str]:
    """Return the ids of the job's snapshots; none if there is no store yet."""
    with suppress(LabError):
        return [it["snapshot"] for it in spotrun(host, "snapshots", "train", f"--store={store}")]
    return []


def output(host: Host) -> list[str]:
    """Return what the job has written to stdout, if it has begun."""
    return host.run(["spotrun", "logs", "train"], check=False).stdout.splitlines()


def until(holds: Callable[[], object], *, seconds: float = 60) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@contextmanager
def cloud(host: Host, provider: str) -> Iterator[Callable[[str], None]]:
    """Put a host into a cloud; what is yielded writes a line to it."""
    host.run(["ip", "addr", "add", f"{ADDRESSES[provider]}/32", "dev", "lo"])
    if provider in _NAMES:
        known = f"echo {ADDRESSES[provider]} {_NAMES[provider]} >>/etc/hosts"
        host.run(["sh", "-c", known])
    serve = [_PYTHON, "-m", "tests.e2e.on_cloud", provider]
    with host.popen(serve, stdin=subprocess.PIPE) as serving:
        assert serving.stdin
        assert serving.stdout
        assert serving.stdout.readline() == "serving\n"

        def say(line: str) -> None:
            assert serving.stdin
            serving.stdin.write(f"{line}\n")
            serving.stdin.flush()

        try:
            yield say
        finally:
            serving.kill()
