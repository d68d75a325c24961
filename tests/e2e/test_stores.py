"""Jobs whose snapshots are in a bucket, encrypted, or could not be sent."""

import pytest

from tests.conftest import Hosts
from tests.e2e.jobs import await_end, await_lines, lines, migrate, refused, spotrun, start, status
from tests.e2e.s3 import served
from tests.lab.host import Host

pytestmark = pytest.mark.lab

_KEY = "/root/store.key"
_SMALL = "/srv/small"
_FILLING = f"""#!/bin/sh
criu.real "$@"; status=$?
case "$*" in *swrk*) dd if=/dev/zero of={_SMALL}/filler bs=4k;; esac
exit $status
"""
_COUNT = ("sh", "/jobs/count.sh", "100000", "0")


def _give_key(*hosts: Host) -> None:
    for host in hosts:
        host.path(_KEY).write_text("a secret of more than sixteen bytes\n")


def _sent(host: Host, job: str) -> int:
    """Take a snapshot of a running job, and return the bytes that had to be sent."""
    done = spotrun(host, "checkpoint", "--leave-running", job)
    sent: int = next(it["bytes"] for it in done["phases"] if it["name"] == "store")
    return sent


def test_training_is_bit_identical_by_an_encrypted_bucket(hosts: Hosts) -> None:
    """Checkpointed here, restored there, migrated back; a second snapshot costs what changed."""
    a, b = hosts(2, images=("torch",))
    _give_key(a, b)
    with served(a, b) as url:
        store = (f"--store={url}", f"--key-file={_KEY}")
        words = ("python3", "/jobs/train.py", "200", "256", "0", "0.3")
        start(a, "still", "torch", *words)
        start(a, "moving", "torch", *words, options=store)
        await_lines(a, "moving", 10)
        first = _sent(a, "moving")
        await_lines(a, "moving", len(lines(a, "moving")) + 3)
        assert 0 < _sent(a, "moving") < first / 3
        spotrun(a, "checkpoint", "moving")
        assert status(a, "moving") == "stored"
        spotrun(b, "restore", "moving", *store)
        await_lines(b, "moving", len(lines(b, "moving")) + 5)
        migrate(b, a, "moving")
        assert await_end(a, "moving") == 0
        assert await_end(a, "still") == 0
        assert lines(a, "moving") == lines(a, "still")
        assert spotrun(a, "verify", "--read-data", *store)["findings"] == []
        error = refused(b, "snapshots", store[0])
        assert error["code"] == "StoreLocked"


def test_snapshot_that_the_store_cannot_take_is_sent_later(hosts: Hosts) -> None:
    """The job goes on, the snapshot waits on its host, and `push` sends it without a new dump."""
    (host,) = hosts(1)
    host.fill(_SMALL, 128)
    start(host, "count", "busybox", *_COUNT, options=(f"--store={_SMALL}/store",))
    await_lines(host, "count", 3)
    host.run(["mv", "/usr/sbin/criu", "/usr/sbin/criu.real"])
    host.path("/usr/sbin/criu").write_text(_FILLING)
    host.run(["chmod", "+x", "/usr/sbin/criu"])
    error = refused(host, "checkpoint", "count")
    assert error["code"] == "Unsent"
    assert "No space left" in error["message"]
    assert status(host, "count") == "running"
    await_lines(host, "count", len(lines(host, "count")) + 2)
    host.run(["mv", "/usr/sbin/criu.real", "/usr/sbin/criu"])
    host.run(["rm", f"{_SMALL}/filler"])
    assert spotrun(host, "snapshots", f"--store={_SMALL}/store") == []
    (sent,) = spotrun(host, "push")
    assert spotrun(host, "push") == spotrun(host, "snapshots") == []
    (stored,) = spotrun(host, "snapshots", f"--store={_SMALL}/store")
    assert stored["snapshot"] == sent["snapshot"]
    spotrun(host, "restore", "count", "--name=twin", f"--store={_SMALL}/store")
    await_lines(host, "twin", len(lines(host, "twin")) + 2)
    written = lines(host, "twin")
    assert written == [str(number) for number in range(len(written))]


def test_encrypted_folder_moves_with_the_job_only_if_both_hosts_see_it(hosts: Hosts) -> None:
    """Its snapshots never end in plain on the target, which needs the key, too."""
    a, b = hosts(2)
    _give_key(a, b)
    for place in ("/mnt/machine/store", "/root/store"):
        a.run(["podman", "rm", "-f", "-t0", "count"], check=False)
        store = (f"--store={place}", f"--key-file={_KEY}")
        start(a, "count", "busybox", *_COUNT, options=store)
        await_lines(a, "count", 3)
        if place == "/root/store":
            error = refused(a, "migrate", "count", "--to", "ssh://root@host-b")
            assert error["code"] == "NotRestorable"
            assert "encrypted" in error["message"]
            assert status(a, "count") == "running"
        else:
            migrate(a, b, "count")
            spotrun(b, "checkpoint", "--leave-running", "count")
            assert len(spotrun(b, "snapshots", "count")) == 2
            b.run(["podman", "rm", "-f", "-t0", "count"])
    assert spotrun(a, "snapshots") == spotrun(b, "snapshots") == []


def test_job_goes_on_when_its_store_is_not_as_it_was(hosts: Hosts) -> None:
    """Gone, or to be replaced by a plain one: refused. Read-only: its snapshot waits here."""
    (host,) = hosts(1)
    _give_key(host)
    host.fill(_SMALL, 128)
    store = (f"--store={_SMALL}/store", f"--key-file={_KEY}")
    start(host, "count", "busybox", *_COUNT, options=store)
    await_lines(host, "count", 3)
    error = refused(host, "checkpoint", "count", "--store=/root/plain")
    assert error["code"] == "NotCapturable"
    host.run(["mv", f"{_SMALL}/store", f"{_SMALL}/away"])
    assert refused(host, "checkpoint", "count")["code"] == "StoreMissing"
    host.run(["mv", f"{_SMALL}/away", f"{_SMALL}/store"])
    spotrun(host, "checkpoint", "--leave-running", "count")
    host.run(["mount", "-o", "remount,ro", _SMALL])
    assert refused(host, "checkpoint", "count")["code"] == "Unsent"
    host.run(["env", "SPOTRUN_STORE=/root/plain", "spotrun", "restore", "count", "--name=twin"])
    host.run(["mount", "-o", "remount,rw", _SMALL])
    assert len(spotrun(host, "push", "count")) == 1
    assert len(spotrun(host, "snapshots", "count")) == 2
    for job in ("count", "twin"):
        await_lines(host, job, len(lines(host, job)) + 2)
