"""A job's day on a host with real containers: what is done to it, and what others see of it."""

import json
import time

import pytest

from tests.conftest import Hosts
from tests.e2e.jobs import await_lines, migrate, refused, spotrun, start, status
from tests.e2e.terminal import Terminal
from tests.lab.host import Engine, Host, wait_until

pytestmark = pytest.mark.lab

_COUNT = ("sh", "/jobs/count.sh", "100000", "0")
_LABEL = "--filter=label=io.spotrun.job"


def _said(host: Host, *words: str) -> str:
    return host.run(["spotrun", *words]).stdout


def _await_status(host: Host, job: str, wanted: str, *, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while (found := status(host, job)) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def test_job_is_an_ordinary_container_for_all_verbs(hosts: Hosts, engine: Engine) -> None:
    """The engine's own commands show it, and those of spotrun do what they do."""
    (host,) = hosts(1, engine=engine)
    start(host, "count", "busybox", *_COUNT)
    await_lines(host, "count", 3)
    own = host.run([engine, "ps", _LABEL, "--format={{.Names}}"]).stdout
    assert own == _said(host, "ps", "--quiet") == "count\n"
    assert host.run([engine, "logs", "--tail=2", "count"]).stdout.strip().isdigit()

    assert _said(host, "exec", "-e", "A=1", "count", "sh", "-c", "echo $A; cat /proc/1/comm") == (
        "1\nsh\n"
    )
    assert host.run(["spotrun", "exec", "count", "sh", "-c", "exit 9"], check=False).returncode == 9
    said = host.run(["spotrun", "exec", "-i", "count", "cat"], stdin="in").stdout
    assert said == "in"

    (found,) = json.loads(_said(host, "inspect", "--format", "json", "count"))
    assert found["Config"]["Labels"]["io.spotrun.job"] == "count"
    words = ["inspect", "-f", "{{.Name}} {{.State.Status}}", "count"]
    assert _said(host, *words) == host.run([engine, *words]).stdout
    assert _said(host, "stats", "--no-stream", "--format", "{{.Name}}") == "count\n"

    assert _said(host, "pause", "count") == "count\n"
    assert status(host, "count") == "paused"
    assert "paused" in refused(host, "checkpoint", "count")["message"]
    assert _said(host, "unpause", "count") == "count\n"
    assert _said(host, "restart", "-t", "0", "count") == "count\n"
    assert status(host, "count") == "running"

    waiting = host.popen(["spotrun", "wait", "count"])
    assert _said(host, "kill", "-s", "KILL", "count") == "count\n"
    assert waiting.communicate(timeout=30) == ("137\n", "")
    assert status(host, "count") == "exited (137)"
    assert _said(host, "start", "count") == "count\n"
    assert _said(host, "stop", "-t", "0", "count") == "count\n"
    assert _said(host, "rm", "count") == "count\n"
    assert host.run([engine, "ps", "--all", "--quiet"]).stdout == ""
    assert spotrun(host, "ps", "--all") == []
    assert host.run(["ls", "/var/lib/spotrun/jobs", "/var/lib/spotrun/criu"]).stdout == (
        "/var/lib/spotrun/criu:\n\n/var/lib/spotrun/jobs:\n"
    )


def test_part_of_the_output_is_the_same_from_container_and_snapshot(
    hosts: Hosts, engine: Engine
) -> None:
    """So `logs` does not depend on where a job is."""
    (host,) = hosts(1, engine=engine)
    start(host, "count", "busybox", *_COUNT)
    await_lines(host, "count", 5)
    spotrun(host, "checkpoint", "count")
    whole = _said(host, "logs", "count").splitlines()
    last = _said(host, "logs", "--tail", "2", "count")
    stamped = _said(host, "logs", "-t", "--until", "0s", "count").splitlines()
    assert last.splitlines() == whole[-1:]  # the last but one is on stderr
    assert [line.split(" ", 1)[1] for line in stamped] == whole
    third = stamped[2].split(" ")[0]
    assert _said(host, "logs", "--since", third, "count").splitlines() == whole[2:]
    spotrun(host, "restore", "count")
    await_lines(host, "count", len(whole) + 3)
    until = stamped[-1].split(" ")[0]
    shown = _said(host, "logs", "--since", third, "--until", until, "count").splitlines()
    assert len(whole) - 3 <= len(shown) <= len(whole) - 2
    assert shown == whole[2:][: len(shown)]
    follow = host.popen(["spotrun", "logs", "-f", "-n", "2", "count"])
    _said(host, "kill", "count")
    out, _ = follow.communicate(timeout=30)
    assert out.splitlines()[-1] == _said(host, "logs", "count").splitlines()[-1]


def test_who_waits_learns_that_the_job_has_left(hosts: Hosts, engine: Engine) -> None:
    """The exit code is 85, of `wait`, `attach` and `run` alike, and all later verbs say where."""
    a, b = hosts(2, engine=engine)
    attached = a.popen(["spotrun", "run", "--name=count", *_bind(), *_COUNT])
    _await_status(a, "count", "running")
    await_lines(a, "count", 3)
    also = Terminal(a, "spotrun", "attach", "--no-stdin", "count")
    waiting = a.popen(["spotrun", "wait", "count"])
    time.sleep(1)
    migrate(a, b, "count")
    where = "job 'count' has moved to ssh://root@host-b"
    assert waiting.communicate(timeout=30) == ("85\n", f"spotrun: {where}\n")
    assert (also.end(), where in also.shown) == (85, True)
    _, errors = attached.communicate(timeout=30)
    assert (attached.returncode, errors.splitlines()[-1]) == (85, f"spotrun: {where}")
    for verb in ("logs", "checkpoint", "restore"):
        assert refused(a, verb, "count")["message"] == where
    assert a.run(["spotrun", "stop", "count"], check=False).stderr.startswith(f"spotrun: {where}")
    assert _said(a, "rm", "count") == "count\n"
    assert status(a, "count") is None
    assert status(b, "count") == "running"


def _bind() -> list[str]:
    return ["-v", "/opt/spotrun/src/tests/jobs:/jobs:ro", "localhost/lab/busybox:1"]


def test_restored_job_is_stopped_started_and_removed_like_any(hosts: Hosts, engine: Engine) -> None:
    """A fresh start begins at its command; `rm --snapshots` leaves nothing to go on from."""
    (host,) = hosts(1, engine=engine)
    start(host, "count", "busybox", *_COUNT)
    await_lines(host, "count", 3)
    spotrun(host, "checkpoint", "count")
    message = host.run(["spotrun", "start", "count"], check=False).stderr
    assert "`spotrun restore count` goes on with it" in message
    spotrun(host, "restore", "count")
    _said(host, "exec", "count", "rm", "-rf", "/made")
    _said(host, "restart", "-t", "0", "count")
    assert status(host, "count") == "running"
    spotrun(host, "checkpoint", "--leave-running", "count")
    assert len(spotrun(host, "snapshots", "count")) == 2
    assert _said(host, "rm", "-f", "--snapshots", "count") == "count\n"
    assert spotrun(host, "snapshots") == []
    assert refused(host, "restore", "count")["code"] == "SnapshotNotFound"


def test_job_that_is_being_saved_is_not_stopped(hosts: Hosts, engine: Engine) -> None:
    """Who holds it, at what and since when is said at once, and the checkpoint succeeds."""
    (host,) = hosts(1, engine=engine)
    start(host, "count", "busybox", *_COUNT)
    await_lines(host, "count", 3)
    slow = '#!/bin/sh\nsleep 3\nexec /usr/sbin/criu.real "$@"\n'
    host.run(["mv", "/usr/sbin/criu", "/usr/sbin/criu.real"])
    host.path("/usr/sbin/criu").write_text(slow)
    host.run(["chmod", "+x", "/usr/sbin/criu"])
    saving = host.popen(["spotrun", "checkpoint", "count"])
    wait_until(["grep", "-q", "checkpoint", "/run/spotrun/locks/count.lock"], host)
    for verb in ("stop", "kill", "restart", "pause", "rm"):
        done = host.run(["spotrun", verb, "count"], check=False)
        assert done.returncode == 125, verb
        assert "is busy: pid " in done.stderr, verb
        assert "at 'checkpoint' since " in done.stderr, verb
    saving.communicate(timeout=60)
    assert saving.returncode == 0
    assert status(host, "count") == "stored"
