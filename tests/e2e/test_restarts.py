"""A job that has a snapshot is not started afresh behind its user's back."""

import shutil
import time
from pathlib import Path

import pytest

from tests.conftest import Hosts
from tests.e2e.jobs import await_lines, lines, refused, spotrun, start, status
from tests.lab.host import Engine, Host, wait_until

pytestmark = pytest.mark.lab

_COUNT = ("sh", "/jobs/count.sh", "100000", "0")
_BOTH_WAYS = "`spotrun restore count` goes on with it, and `spotrun restart count` starts it afresh"


def _started(hosts: Hosts, engine: Engine) -> Host:
    """Boot a host with a job that its engine is to start again whenever it ends."""
    (host,) = hosts(1, engine=engine)
    start(host, "count", "busybox", *_COUNT, options=("--restart=always",))
    await_lines(host, "count", 3)
    return host


def _pid(host: Host) -> int:
    shown = host.run([host.engine, "inspect", "-f", "{{.State.Pid}}", "count"]).stdout
    return int(shown)


def _kill(host: Host) -> None:
    host.run(["kill", "-KILL", str(_pid(host))])


def _assert_ended(host: Host) -> None:
    """Prove that it has, and stays so as long as an engine might wait with a restart."""
    wait_until(["sh", "-c", "spotrun ps | grep -q exited"], host)
    time.sleep(3)
    assert (status(host, "count") or "").startswith("exited"), status(host, "count")


def _assert_goes_on(host: Host) -> None:
    """Prove that it has gone on from a snapshot: the numbers have no gap and no second start."""
    written = len(lines(host, "count"))
    await_lines(host, "count", written + 3)
    found = lines(host, "count")
    assert found == [str(number) for number in range(len(found))]


def _containers(host: Host) -> list[str]:
    return host.run([host.engine, "ps", "-a", "--format", "{{.Names}}"]).stdout.split()


def test_restored_job_that_dies_is_restored_again(hosts: Hosts, engine: Engine) -> None:
    """Its policy does not start it from the beginning; the next container comes in its place."""
    host = _started(hosts, engine)
    spotrun(host, "checkpoint", "count")
    for _ in range(2):
        spotrun(host, "restore", "count")
        _assert_goes_on(host)
        _kill(host)
        _assert_ended(host)
    spotrun(host, "restore", "count")
    _assert_goes_on(host)
    assert _containers(host) == ["count"]
    assert refused(host, "restore", "count")["code"] == "NameTaken"


def test_failed_restore_leaves_the_ended_container(hosts: Hosts, engine: Engine) -> None:
    """With its name, its files and its log."""
    host = _started(hosts, engine)
    spotrun(host, "checkpoint", "--leave-running", "count")
    _kill(host)
    _assert_ended(host)
    (before,) = spotrun(host, "ps")
    host.run(["mv", "/usr/sbin/criu", "/usr/sbin/criu.real"])
    broken = '#!/bin/sh\n[ "$1" = swrk ] && [ -e /run/broken ] && exit 1\nexec criu.real "$@"\n'
    host.path("/usr/sbin/criu").write_text(broken)
    host.run(["sh", "-c", "chmod +x /usr/sbin/criu; touch /run/broken"])
    assert refused(host, "restore", "count")["code"] == "RestoreFailed"
    assert spotrun(host, "ps") == [before]
    assert _containers(host) == ["count"]
    host.run(["rm", "/run/broken"])
    spotrun(host, "restore", "count")
    _assert_goes_on(host)


def test_job_that_was_never_saved_is_started_again_as_ever(hosts: Hosts, engine: Engine) -> None:
    """By its policy, when it dies; once it is saved that is over, also by hand."""
    host = _started(hosts, engine)
    first = _pid(host)
    _kill(host)
    probe = f"{engine} inspect -f '{{{{.State.Status}}}} {{{{.State.Pid}}}}' count"
    wait_until(["sh", "-c", f"{probe} | grep running | grep -qv ' {first}$'"], host)
    written = len(lines(host, "count"))
    await_lines(host, "count", written + 3)
    assert lines(host, "count").count("0") == 2
    spotrun(host, "checkpoint", "--leave-running", "count")
    said = host.run([engine, "restart", "-t", "0", "count"], check=False)
    assert said.returncode != 0
    assert _BOTH_WAYS in said.stderr
    assert host.run(["spotrun", "restart", "count"]).stdout == "count\n"
    await_lines(host, "count", len(lines(host, "count")) + 3)
    assert lines(host, "count").count("0") == 3
    (row,) = spotrun(host, "ps")
    saved = spotrun(host, "checkpoint", "count")
    assert saved["snapshot"] > row["snapshot"]
    spotrun(host, "restore", "count")
    await_lines(host, "count", len(lines(host, "count")) + 3)
    assert lines(host, "count").count("0") == 3


@pytest.mark.parametrize(
    ("options", "place", "after"),
    [
        ((), "dump processes:end", "running"),
        ((), "publish:end", "stored"),
        (("--leave-running",), "publish:end", "exited"),
    ],
)
def test_power_cut_in_a_checkpoint(
    hosts: Hosts, engine: Engine, options: tuple[str, ...], place: str, after: str
) -> None:
    """Before the first snapshot is committed a job starts afresh, then it goes on from that."""
    host = _started(hosts, engine)
    killed = Path(__file__).parents[1] / "faults/killed_spotrun.py"
    shutil.copy(killed, host.path("/usr/local/bin/spotrun"))
    host.path("/etc/fault").write_text(place)
    host.run(["spotrun", "checkpoint", *options, "count"], check=False)
    _cut_power(host)
    shown = host.run([engine, "ps", "--format", "{{.Names}}"]).stdout.split()
    assert shown == (["count"] if after == "running" else [])
    assert (status(host, "count") or "").split()[0] == after
    assert list(host.path("/var/lib/spotrun/journal").iterdir()) == []
    if after == "running":
        spotrun(host, "checkpoint", "count")
    spotrun(host, "restore", "count")
    if after != "running":
        _assert_goes_on(host)


def test_power_cut_in_a_migration_loses_no_snapshot(hosts: Hosts, engine: Engine) -> None:
    """The source's processes are gone, and the target has not begun: the snapshot stays."""
    host, _ = hosts(2, engine=engine)
    start(host, "count", "busybox", *_COUNT, options=("--restart=always",))
    await_lines(host, "count", 3)
    killed = Path(__file__).parents[1] / "faults/killed_spotrun.py"
    shutil.copy(killed, host.path("/usr/local/bin/spotrun"))
    host.path("/etc/fault").write_text("publish:end")
    host.run(["spotrun", "migrate", "count", "--to", "ssh://root@host-b"], check=False)
    _cut_power(host)
    assert (status(host, "count") or "").startswith("exited")
    spotrun(host, "restore", "count")
    _assert_goes_on(host)


def test_power_cut_leaves_a_job_with_the_same_code_everywhere(hosts: Hosts, engine: Engine) -> None:
    """It is Docker's: no engine has seen its end, and 0 would be a good one."""
    (host,) = hosts(1, engine=engine)
    start(host, "count", "busybox", *_COUNT)
    _cut_power(host)
    assert status(host, "count") == "exited (255)"
    assert host.run(["spotrun", "wait", "count"]).stdout.split() == ["255"]


def _cut_power(host: Host) -> None:
    """Cut it, and boot again with the engine's own restarts."""
    host.power_off()
    host.power_on()
    if host.engine == "docker":
        host.run(["rm", "-f", "/var/run/docker.pid"])
        host.start_docker()
    else:  # as podman-restart.service has it
        host.run(["podman", "start", "--all", "--filter=restart-policy=always"], check=False)
    time.sleep(3)
