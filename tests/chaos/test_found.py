"""What chaos has found, each by itself."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.chaos.watch import Watch, running
from tests.conftest import Hosts
from tests.e2e.s3 import served
from tests.e2e.spot import COUNT, LEASE, Spot, history, kinds, output, snapshots, until
from tests.lab.host import Host

pytestmark = pytest.mark.lab


def test_run_that_waits_for_a_job_learns_of_its_end(hosts: Hosts) -> None:
    """It does not do the last part again."""
    a, b = hosts(2)
    with served(a, b) as store:
        spot = Spot(store, "busybox", COUNT, "--every=1s")
        spot.run(a)
        until(lambda: snapshots(a, store), seconds=120)
        waiting = spot.attached(b)
        until(lambda: b.run(["pgrep", "-f", "spotrun run"], check=False).stdout)
        time.sleep(1)
        end = ["podman", "exec", "train", "touch", "/end"]
        until(lambda: a.run(end, check=False).returncode == 0)  # not while it is frozen
        _, errors = waiting.communicate(timeout=60)
        assert waiting.returncode == 0
        assert "has come to its end" in errors
        assert kinds(b, store) == ["started fresh", "ended"]


def test_run_that_was_killed_in_a_restore_is_followed_by_the_next(hosts: Hosts) -> None:
    """On the same host, at once."""
    (host,) = hosts(1)
    with served(host) as store:
        spot = Spot(store)
        spot.run(host)
        until(lambda: snapshots(host, store), seconds=120)
        host.run(["spotrun", "checkpoint", "train"])
        _slow_down(host)
        first = spot.attached(host)
        until(lambda: host.run(["pgrep", "sleep-well"], check=False).stdout)
        host.signal(first, signal.SIGKILL)
        first.communicate()
        host.path("/usr/local/sbin/criu").unlink()
        done = spot.run(host)
        assert done.returncode == 0, done.stderr
        assert history(host, store)[-1]["rung"] == "live"
        made = len(output(host))
        until(lambda: len(output(host)) > made)


def test_restore_of_a_killed_run_does_not_go_on_beside_the_one_that_follows(hosts: Hosts) -> None:
    """On another host, while the first one's engine is still at it."""
    a, b = hosts(2)
    with served(b, a) as store, Watch([a, b], print) as watch:
        spot = Spot(store)
        spot.run(a)
        until(lambda: snapshots(a, store), seconds=120)
        a.run(["spotrun", "checkpoint", "train"])
        _slow_down(a)
        first = spot.attached(a)
        until(lambda: a.run(["pgrep", "sleep-well"], check=False).stdout)
        a.signal(first, signal.SIGKILL)
        first.communicate()
        done = spot.run(b)
        assert done.returncode == 0, done.stderr
        until(lambda: not a.run(["pgrep", "sleep-well"], check=False).stdout)
        time.sleep(2)
        assert {it.host for it in running([a, b])} == {b.name}
        assert not watch.twice


@pytest.mark.parametrize(("program", "word"), [("podman", "run"), ("runc", "create")])
def test_beginning_of_a_killed_run_does_not_go_on_beside_the_one_that_follows(
    hosts: Hosts, program: str, word: str
) -> None:
    """Whether its engine has begun to make the container or not."""
    a, b = hosts(2)
    with served(b, a) as store, Watch([a, b], print) as watch:
        spot = Spot(store)
        _slow_down(a, program, word)
        with _killed_in_the_end(a, spot.attached(a)):
            until(lambda: a.run(["pgrep", "sleep-well"], check=False).stdout)
        with _killed_in_the_end(b, spot.attached(b)):
            until(lambda: not a.run(["pgrep", "sleep-well"], check=False).stdout)
            until(lambda: running([a, b]))
            time.sleep(2)
        assert len({it.host for it in running([a, b])}) == 1
        assert not watch.twice


def test_job_is_frozen_in_time_though_its_guard_was_killed(hosts: Hosts) -> None:
    """When its supervisor is waiting for a store that it is cut off from, with a snapshot begun."""
    host, keeper = hosts(2)
    with served(keeper, host) as store, Watch([host], print) as watch:
        Spot(store, "busybox", COUNT, "--every=1s", "--upload-limit=20k").run(host)
        saving = ["pgrep", "--full", "checkpoint --leave-running"]
        until(lambda: host.run(saving, check=False).stdout)
        host.cut_network()
        guard = host.run(["pgrep", "--full", "--oldest", "supervise train"]).stdout.strip()
        host.run(["kill", "-KILL", guard])
        time.sleep(LEASE)
        assert watch.current
        assert running([host]) == set()


@contextmanager
def _killed_in_the_end(host: Host, process: subprocess.Popen[str]) -> Iterator[None]:
    with process:
        try:
            yield
        finally:
            host.signal(process, signal.SIGKILL)


def _slow_down(host: Host, program: str = "criu", word: str = "swrk") -> None:
    """Have a program wait before it does what a word says; by default, CRIU before a restore."""
    host.run(["cp", "/usr/bin/sleep", "/usr/local/bin/sleep-well"])
    real = host.run(["sh", "-c", f"command -v {program}"]).stdout.strip()
    script = f'#!/bin/sh\nfor it; do [ "$it" = {word} ] && sleep-well 5; done\nexec {real} "$@"\n'
    path = host.path(f"/usr/local/sbin/{program}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
