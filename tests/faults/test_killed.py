"""SIGKILL of spotrun at every phase boundary: the next command sets everything right."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spotrun.runtime.capture import LEAVE_RUNNING, STOP
from spotrun.runtime.migrate import MIGRATE
from spotrun.runtime.restoring import RESTORE
from spotrun.runtime.transaction import Transaction
from tests.conftest import Hosts
from tests.e2e.jobs import lines, spotrun, start, status
from tests.lab.host import Engine, Host, wait_until

pytestmark = pytest.mark.lab

_JOB = "count"
_SLOW_CRIU = """#!/bin/sh
case "$*" in *swrk*) touch /run/dumping; sleep 2;; esac
exec /usr/sbin/criu.real "$@"
"""


def _places(kind: Transaction[Any], *, unlike: Sequence[Transaction[Any]] = ()) -> list[str]:
    """Return the boundaries of a transaction's phases, but not those of phases of others.

    The begin of a phase that needs no undo is like the end of the one before.
    """
    others = [phase for other in unlike for phase in other.phases]
    own = [phase for phase in kind.phases if phase not in others]
    begins = [f"{phase.name}:begin" for phase in own if phase.undo]
    return [*begins, *(f"{phase.name}:end" for phase in own)]


def _prepared(hosts: Hosts, count: int, engine: Engine = "podman") -> list[Host]:
    """Boot hosts whose spotrun can be told to die, with a job on the first."""
    booted = hosts(count, engine=engine)
    for host in booted:
        shutil.copy(
            Path(__file__).with_name("killed_spotrun.py"), host.path("/usr/local/bin/spotrun")
        )
    start(booted[0], _JOB, "busybox", "sh", "/jobs/count.sh", "100000", "0")
    return booted


def _kill(host: Host, place: str, *arguments: str, at: Host | None = None) -> None:
    """Run a verb whose spotrun, there or on the host `at`, dies at that place."""
    (at or host).path("/etc/fault").write_text(place)
    done = host.run(["spotrun", *arguments], check=False)
    assert not (at or host).path("/etc/fault").exists(), f"{place} was never reached: {done}"
    assert at is not None or done.returncode in {-9, 137}, done


def _assert_clean(host: Host) -> None:
    """Nothing is left frozen, half-made, locked or in the journal."""
    states = json.loads(host.run([*host.runc, "list", "--format", "json"]).stdout) or []
    assert [state["status"] for state in states if state["status"] != "running"] == []
    for folder in ("/var/lib/spotrun/journal", "/var/lib/spotrun/scratch", "/dev/shm/spotrun"):
        assert list(host.path(folder).iterdir()) == []
    for folder in ("plans", "restored"):
        assert list(host.path(f"/run/spotrun/{folder}").iterdir()) == []
    containers = host.run([host.engine, "ps", "--all", "--format", "{{.Names}} {{.State}}"]).stdout
    assert set(containers.splitlines()) <= {f"{_JOB} running"}


def _assert_goes_on(host: Host) -> None:
    """Prove that the job runs, has lost no number, and writes more of them."""
    written = len(lines(host, _JOB))
    for _ in range(100):
        found = lines(host, _JOB)
        if len(found) > written:
            break
    assert len(found) > written
    assert found == [str(number) for number in range(len(found))]


def test_checkpoint_killed_at_any_boundary(hosts: Hosts, engine: Engine) -> None:
    """The job runs on, or it is stored and can be restored."""
    (host,) = _prepared(hosts, 1, engine)
    last = ["store:end", "publish:end", "tidy up:end"]
    runs = {
        (): _places(STOP),
        ("--leave-running",): [*_places(LEAVE_RUNNING, unlike=[STOP]), *last],
    }
    for options, places in runs.items():
        for place in places:
            _kill(host, place, "checkpoint", _JOB, *options)
            if status(host, _JOB) == "stored":
                _assert_clean(host)
                spotrun(host, "restore", _JOB)
            assert status(host, _JOB) == "running"
            _assert_clean(host)
            _assert_goes_on(host)


def test_restore_killed_at_any_boundary(hosts: Hosts, engine: Engine) -> None:
    """The job runs, or it is still stored and can be restored."""
    (host,) = _prepared(hosts, 1, engine)
    for place in _places(RESTORE):
        spotrun(host, "checkpoint", _JOB)
        _kill(host, place, "restore", _JOB)
        if status(host, _JOB) == "stored":
            _assert_clean(host)
            spotrun(host, "restore", _JOB)
        assert status(host, _JOB) == "running"
        _assert_clean(host)
        _assert_goes_on(host)


@pytest.mark.parametrize("victim", ["source", "target"])
def test_migrate_killed_at_any_boundary(hosts: Hosts, victim: str) -> None:
    """The job runs on one host and on one only."""
    here, there = _prepared(hosts, 2)
    frozen = ["freeze:end", "dump processes:end", "store:end", "tidy up:end"]
    of_source = [*_places(MIGRATE, unlike=[STOP]), *frozen]
    places = of_source if victim == "source" else _places(RESTORE)
    for place in places:
        at = None if victim == "source" else there
        _kill(here, place, "migrate", _JOB, "--to", f"ssh://root@{there.name}", at=at)
        states = [status(host, _JOB) for host in (here, there)]
        assert states.count("running") == 1, (place, states)
        for host in (here, there):
            _assert_clean(host)
        if states[1] == "running":
            here, there = there, here
        _assert_goes_on(here)


def test_checkpoint_killed_in_the_dump(hosts: Hosts) -> None:
    """The next command waits for CRIU, which is never cut off, and thaws the job."""
    (host,) = _prepared(hosts, 1)
    host.run(["mv", "/usr/sbin/criu", "/usr/sbin/criu.real"])
    host.path("/usr/sbin/criu").write_text(_SLOW_CRIU)
    host.run(["chmod", "+x", "/usr/sbin/criu"])
    with host.popen(["spotrun", "checkpoint", _JOB]) as doomed:
        wait_until(["test", "-e", "/run/dumping"], host)
        host.run(["pkill", "-KILL", "-f", "spotrun checkpoint"])
        doomed.wait()
    assert status(host, _JOB) == "running"
    _assert_clean(host)
    _assert_goes_on(host)
