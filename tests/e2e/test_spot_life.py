"""A job on machines that vanish: one command line, and it goes on, once and only once."""

import shlex
import signal
import time

import pytest

from tests.conftest import Hosts
from tests.e2e.jobs import await_end, lines, spotrun, start, status
from tests.e2e.s3 import served
from tests.e2e.spot import (
    COUNT,
    LEASE,
    Spot,
    cloud,
    history,
    kinds,
    log,
    output,
    snapshots,
    until,
)
from tests.lab.host import Engine, Host
from tests.lab.images import name

pytestmark = pytest.mark.lab

_SLOW = ("rate", "20mbit", "burst", "64kb", "latency", "1s")
_FILL = """
dd if=/dev/zero of=/var/lib/spotrun/filler bs=4k
while echo full >>/var/lib/spotrun/train-supervisor.log; do :; done
"""
_RESTLESS = """
import os, time
while True:
    kept = os.urandom(30_000_000)
    print(len(kept), flush=True)
    time.sleep(0.5)
"""
_TRAIN = ("python3", "/jobs/train.py", "200", "256", "0", "0.2")


def test_same_command_goes_on_elsewhere_after_a_notice(hosts: Hosts, engine: Engine) -> None:
    """PyTorch comes to the very same weights; who was attached learns that it has left: 85."""
    a, b = hosts(2, images=("torch",), engine=engine)
    start(a, "still", "torch", *_TRAIN)
    with served(a, b) as store, cloud(a, "aws") as announce:
        spot = Spot(store, "torch", _TRAIN, "--every=4s", "--rm")
        first = spot.attached(a)
        until(lambda: len(snapshots(a, store)) > 1, seconds=120)
        announce("60")
        out, errors = first.communicate(timeout=60)
        assert first.returncode == 85, errors
        assert "job 'train' left this host, stored as" in errors
        second = spot.attached(b)
        rest, errors = second.communicate(timeout=180)
        assert second.returncode == 0, errors
        assert await_end(a, "still") == 0
        assert (out + rest).splitlines() == lines(a, "still")
        told = ["started fresh", "notice", "stopped", "restored live", "ended"]
        until(lambda: kinds(b, store) == told)
        again = spot.attached(a)
        assert again.communicate(timeout=60) == (
            "",
            "spotrun: job 'train' has come to its end; --fresh begins it anew\n",
        )
        assert again.returncode == 0


@pytest.mark.parametrize("provider", ["gcp", "azure", "alibaba", "tencent"])
def test_notices_of_all_clouds_are_met(hosts: Hosts, provider: str) -> None:
    """In time, with a snapshot of the job as it was then."""
    (host,) = hosts(1)
    with served(host) as store, cloud(host, provider) as announce:
        running = Spot(store).attached(host)
        _lengthens(host, 10)
        announce("30")
        running.communicate(timeout=60)
        assert running.returncode == 85
        until(lambda: kinds(host, store) == ["started fresh", "notice", "stopped"])
        assert len(snapshots(host, store)) >= 1


def test_agent_hears_for_all_jobs(hosts: Hosts) -> None:
    """And where it dies they hear for themselves."""
    (host,) = hosts(1)
    with served(host) as store, cloud(host, "aws") as announce:
        for died in (False, True):
            agent = host.popen(["spotrun", "agent"])
            until(lambda: host.run(["pgrep", "-f", "spotrun agent"], check=False).stdout)
            time.sleep(2)  # it asks who is there
            running = [Spot(store, job=it).attached(host) for it in ("one", "two")]
            until(lambda: len(_supervisors(host, "(one|two)")) == 4)
            time.sleep(2)
            if died:
                host.signal(agent, signal.SIGKILL)
                time.sleep(10)
            announce("60")
            for each in running:
                each.communicate(timeout=60)
            assert [it.returncode for it in running] == [85, 85]
            announce("")
            host.signal(agent, signal.SIGTERM)
            _, said = agent.communicate(timeout=10)
            assert ("for 2 jobs" in said) is not died
            for job in ("one", "two"):
                host.run(["spotrun", "rm", "--snapshots", job])


def test_sigterm_is_a_notice(hosts: Hosts) -> None:
    """As schedulers and service managers send it; Ctrl-C is still the container's."""
    a, b = hosts(2)
    with served(a, b) as store:
        spot = Spot(store)
        running = spot.attached(a, "--grace=20s")
        _lengthens(a, 5)
        a.signal(running, signal.SIGTERM)
        running.communicate(timeout=30)
        assert running.returncode == 85
        again = spot.attached(b)
        _lengthens(b, len(output(b)) + 3)
        b.signal(again, signal.SIGTERM)
        again.communicate(timeout=30)
        assert again.returncode == 85
        third = spot.attached(a)
        _lengthens(a, 20)
        a.signal(third, signal.SIGINT)
        third.communicate(timeout=30)
        assert third.returncode == 130


def test_notice_while_a_snapshot_is_made_is_met(hosts: Hosts) -> None:
    """And a second one changes nothing."""
    (host,) = hosts(1)
    with served(host) as store:
        spot = Spot(store, "busybox", COUNT, "--every=1s", "--upload-limit=20k")
        running = spot.attached(host)
        until(lambda: "checkpoint" in host.run(["ps", "ax", "-o", "args"]).stdout, seconds=60)
        host.run(["spotrun", "notice", "--in", "40s", "train"])
        host.run(["spotrun", "notice", "--in", "39s", "train"], check=False)
        running.communicate(timeout=60)
        assert running.returncode == 85
        until(lambda: kinds(host, store)[-1] == "stopped")
        assert snapshots(host, store)


def test_snapshot_by_the_way_gives_way_to_the_job_s_user(hosts: Hosts) -> None:
    """`stop` does not wait for an upload that takes long, nor does `rm`, which leaves nothing."""
    (host,) = hosts(1)
    with served(host) as store:
        spot = Spot(store, "busybox", COUNT, "--every=1s", "--upload-limit=20k")
        saving = "checkpoint --leave-running"
        for ending in (["stop", "-t", "1"], ["rm", "--force", "--snapshots"]):
            assert spot.run(host).returncode == 0
            until(lambda: saving in host.run(["ps", "ax", "-o", "args"]).stdout, seconds=60)
            host.run(["spotrun", *ending, "train"], timeout=20)
            until(lambda: "supervise" not in host.run(["ps", "ax", "-o", "args"]).stdout)
        assert snapshots(host, store) == []


def test_notice_that_is_far_is_followed_only_if_it_stands(hosts: Hosts) -> None:
    """A snapshot is made at once; the job runs on, also when it is called off."""
    (host,) = hosts(1)
    with served(host) as store, cloud(host, "azure") as announce:
        Spot(store, "busybox", COUNT, "--every=1h").run(host)
        until(lambda: len(snapshots(host, store)) >= 1)
        announce("900")
        until(lambda: len(snapshots(host, store)) >= 2)
        announce("")
        until(lambda: "called off" in log(host))
        assert status(host, "train") == "running"


def test_last_good_snapshot_counts_when_there_is_no_time(hosts: Hosts) -> None:
    """With a second left nothing is begun that would be cut off; the job goes on from before."""
    a, b = hosts(2)
    with served(a, b) as store:
        spot = Spot(store, "busybox", COUNT, "--every=1h")
        running = spot.attached(a)
        until(lambda: len(snapshots(a, store)) >= 1)
        before = snapshots(a, store)
        _lengthens(a, len(output(a)) + 20)
        a.run(["spotrun", "notice", "--in", "1s", "train"])
        running.communicate(timeout=30)
        assert running.returncode == 85
        assert snapshots(a, store) == before
        assert "nothing fits; the last snapshot counts" in log(a)
        spot.run(b)
        (told,) = [it for it in history(b, store) if it["rung"] == "live"]
        assert told["snapshot"] == before[0]


def test_job_leaves_a_host_whose_disk_is_full(hosts: Hosts) -> None:
    """Where nothing can be written, not even in a log: 85, and it goes on elsewhere, once."""
    a, b = hosts(2)
    with served(b, a) as store:
        a.run(["mount", "-t", "tmpfs", "-o", "size=300m,mode=700", "tmpfs", "/var/lib/spotrun"])
        spot = Spot(store, "busybox", COUNT, "--every=2s")
        running = spot.attached(a)
        until(lambda: snapshots(a, store))
        a.run(["sh", "-c", _FILL], check=False)
        a.run(["spotrun", "notice", "--in=15s", "train"])
        running.communicate(timeout=40)
        assert running.returncode == 85
        assert a.run(["podman", "ps", "--quiet"]).stdout == ""
        assert "goes on from" in spot.run(b).stderr


def test_files_are_stored_where_there_is_no_time_for_memory(hosts: Hosts) -> None:
    """By a line on which the last snapshots took much longer."""
    a, b = hosts(2, images=("python",))
    with served(b, a) as store:
        spot = Spot(store, "python", ("python3", "-c", _RESTLESS), "--every=2s")
        running = spot.attached(a)
        until(lambda: len(snapshots(b, store)) >= 1)
        a.run(["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *_SLOW])
        before = len(snapshots(b, store))
        until(lambda: len(snapshots(b, store)) >= before + 2, seconds=120)
        a.run(["spotrun", "notice", "--in", "9s", "train"])
        running.communicate(timeout=30)
        assert running.returncode == 85
        assert "files only" in log(a)
        (newest,) = spotrun(b, "snapshots", "train", f"--store={store}")[-1:]
        assert newest["kind"] == "files"
        assert spot.run(b).returncode == 0
        (told,) = [it for it in history(b, store) if it["rung"] == "live"]
        assert told["snapshot"] != newest["snapshot"]


def test_job_of_a_dead_host_is_taken_over(hosts: Hosts) -> None:
    """When nothing has been heard of it for as long as it could run; then at home at once."""
    a, b = hosts(2)
    with served(b, a) as store:
        spot = Spot(store, "busybox", COUNT, "--every=2s")
        spot.run(a)
        until(lambda: len(snapshots(b, store)) >= 2)
        a.power_off()
        begun = time.monotonic()
        assert spot.run(b).returncode == 0
        assert time.monotonic() - begun > LEASE / 2
        assert kinds(b, store) == ["started fresh", "restored live"]
        b.run(["spotrun", "checkpoint", "train"])
        a.power_on()
        assert spot.run(a).returncode == 0
        _lengthens(a, len(output(a)) + 3)
        assert status(a, "train") == "running"


def test_host_that_is_cut_off_freezes_before_another_one_goes_on(hosts: Hosts) -> None:
    """It never thaws then, and ends its copy when it learns who has the job."""
    a, b = hosts(2)
    with served(b, a) as store:
        spot = Spot(store, "busybox", COUNT, "--every=2s")
        running = spot.attached(a)
        until(lambda: len(snapshots(b, store)) >= 2)
        (container,) = a.run(["podman", "ps", "-q", "--no-trunc"]).stdout.split()
        a.cut_network()
        assert spot.run(b).returncode == 0
        assert _state(a, container) == "paused"
        a.mend_network()
        running.communicate(timeout=60)
        assert running.returncode == 85
        until(lambda: a.run(["podman", "ps", "-aq"]).stdout == "")  # it is killed, then removed
        assert status(a, "train") == "moved to host-b"
        until(lambda: "lost" in kinds(b, store))
        assert status(b, "train") == "running"


def test_host_that_was_cut_off_for_a_while_goes_on(hosts: Hosts) -> None:
    """Frozen when its lease ran out, it thaws when it has it again."""
    a, b = hosts(2)
    with served(b, a) as store:
        Spot(store, "busybox", COUNT, "--every=1h").run(a)
        until(lambda: len(snapshots(b, store)) >= 1)
        (container,) = a.run(["podman", "ps", "-q", "--no-trunc"]).stdout.split()
        a.cut_network()
        until(lambda: _state(a, container) == "paused")
        a.mend_network()
        until(lambda: _state(a, container) == "running")
        _lengthens(a, len(output(a)) + 3)


@pytest.mark.parametrize("which", [0, 1], ids=["guard", "supervisor"])
def test_job_survives_the_death_of_those_who_look_after_it(hosts: Hosts, which: int) -> None:
    """Either begins again what the other one was; the job does not notice."""
    (host,) = hosts(1)
    with served(host) as store:
        Spot(store, "busybox", COUNT, "--every=2s").run(host)
        until(lambda: len(snapshots(host, store)) >= 1)
        pids = _supervisors(host)
        assert len(pids) == 2
        host.run(["kill", "-KILL", pids[which]])
        made = len(snapshots(host, store))
        until(lambda: len(snapshots(host, store)) > made + 1)
        assert len(_supervisors(host)) == 2
        assert kinds(host, store) == ["started fresh"]


def test_end_of_a_scheduler_s_step_is_not_that_of_those_who_look_after_the_job(
    hosts: Hosts,
) -> None:
    """It kills the cgroup that the command was run in, where no signal is heard."""
    (host,) = hosts(1)
    step = "/sys/fs/cgroup/step"
    with served(host) as store:
        line = " ".join(shlex.quote(it) for it in Spot(store, "busybox", COUNT, "--every=2s").line)
        host.run(["sh", "-ec", f"mkdir {step}; echo $$ >{step}/cgroup.procs; {line}"])
        until(lambda: len(snapshots(host, store)) >= 1)
        host.run(["sh", "-c", f"echo 1 >{step}/cgroup.kill"])
        made = len(snapshots(host, store))
        until(lambda: len(snapshots(host, store)) > made)
        assert len(_supervisors(host)) == 2


def test_notice_is_met_by_an_attached_run_although_its_supervisors_are_killed(
    hosts: Hosts,
) -> None:
    """Where no systemd begins them again, who is the job's terminal does, and knows of it."""
    (host,) = hosts(1)
    with served(host) as store:
        running = Spot(store).attached(host, "--grace=20s")
        _lengthens(host, 5)
        host.run(["kill", "-KILL", *_supervisors(host)])
        assert "running, untended" in host.run(["spotrun", "ps"]).stdout
        host.signal(running, signal.SIGTERM)
        running.communicate(timeout=30)
        assert running.returncode == 85
        assert snapshots(host, store)


def test_same_command_looks_after_a_job_again_that_nobody_does(hosts: Hosts) -> None:
    """It goes on where it is, frozen or not."""
    (host,) = hosts(1)
    with served(host) as store:
        spot = Spot(store, "busybox", COUNT, "--every=2s")
        spot.run(host)
        until(lambda: len(snapshots(host, store)) >= 1)
        host.run(["kill", "-KILL", *_supervisors(host)])
        before = len(output(host))
        done = spot.run(host)
        assert "is here, and looked after" in done.stderr
        _lengthens(host, before + 3)
        made = len(snapshots(host, store))
        until(lambda: len(snapshots(host, store)) > made)
        looking = spot.attached(host)  # its terminal had got lost
        host.run(["spotrun", "notice", "--in=60s", "train"])
        looking.communicate(timeout=60)
        assert looking.returncode == 85


def test_files_alone_are_the_next_rung(hosts: Hosts) -> None:
    """With the command that the user has named for it, where CRIU cannot restore."""
    a, b = hosts(2)
    with served(a, b) as store:
        resume = "--resume-cmd=cat /made/n; echo resumed; sleep 1000"
        spot = Spot(store, "busybox", COUNT, resume, "-v", "kept:/kept")
        spot.run(a)
        _lengthens(a, 5)
        a.run(["podman", "exec", "train", "sh", "-c", "echo mine >/kept/file"])
        a.run(["spotrun", "checkpoint", "train"])
        _break_restores(b)
        done = spot.run(b)
        assert done.returncode == 0, done.stderr
        assert "job 'train' starts again with the files of" in done.stderr
        until(lambda: output(b)[-1:] == ["resumed"])
        said, written = (int(it) for it in output(b)[-3:-1])
        assert written in {said, said - 1}  # it is said first
        assert b.run(["podman", "exec", "train", "cat", "/kept/file"]).stdout == "mine\n"
        told = history(b, store)[-1]
        assert (told["kind"], told["rung"]) == ("restored", "files")
        assert "live from" in told["reason"]


def test_job_that_never_ran_has_not_come_to_its_end(hosts: Hosts) -> None:
    """Not by a command that is not there, nor by a container of others that has its name."""
    a, b = hosts(2)
    with served(a, b) as store:
        wrong = Spot(store, "busybox", ("/nothere",))
        for host in (a, b):
            assert wrong.run(host).returncode == 127
        until(lambda: "supervise" not in b.run(["ps", "ax", "-o", "args"]).stdout)
        right = Spot(store, "busybox", COUNT, job="other")
        for verb in ("create", "run -d"):
            a.run(["podman", *verb.split(), "--name=other", name("busybox"), "sleep", "1000"])
            for _ in range(2):
                assert right.run(a).returncode == 125
            a.run(["podman", "rm", "--force", "--time=0", "other"])
        assert right.run(b).returncode == 0


def test_fresh_start_keeps_what_is_stored(hosts: Hosts) -> None:
    """And is what counts from then on."""
    (host,) = hosts(1)
    with served(host) as store:
        spot = Spot(store, "busybox", COUNT, "--every=1h")
        spot.run(host)
        until(lambda: len(snapshots(host, store)) >= 1)
        host.run(["spotrun", "checkpoint", "train"])
        assert spot.run(host, "--fresh").returncode == 0
        assert output(host)[:1] in ([], ["0"])
        until(lambda: len(snapshots(host, store)) >= 3)
        assert kinds(host, store) == ["started fresh", "stopped", "started fresh"]


def test_migration_takes_the_lease_along(hosts: Hosts) -> None:
    """The target looks after the job, and a failed one leaves that with the source."""
    a, b = hosts(2)
    with served(a, b) as store:
        Spot(store, "busybox", COUNT, "--every=2s").run(a)
        until(lambda: len(snapshots(a, store)) >= 1)
        _break_restores(b)
        failed = a.run(["spotrun", "migrate", "train", "--to", "ssh://root@host-b"], check=False)
        assert failed.returncode == 125
        made = len(snapshots(a, store))
        until(lambda: len(snapshots(a, store)) > made)
        b.run(["rm", "/usr/local/sbin/criu"])
        a.run(["spotrun", "migrate", "train", "--to", "ssh://root@host-b"])
        made = len(snapshots(b, store))
        until(lambda: len(snapshots(b, store)) > made)
        assert len(_supervisors(b)) == 2
        until(lambda: not _supervisors(a))
        told = {it["kind"]: it for it in history(a, store) if it["host"] == "host-a"}
        restored = next(it for it in history(a, store) if it["kind"] == "restored")
        assert told["snapshot"]["snapshot"] == told["stopped"]["snapshot"] == restored["snapshot"]
        _lengthens(b, len(output(b)) + 3)


def _lengthens(host: Host, count: int) -> None:
    """Wait until the job has written that many lines."""
    until(lambda: len(output(host)) >= count)


def _state(host: Host, container: str) -> str:
    done = host.run([*host.runc, "state", container], check=False)
    return done.stdout.partition('"status": "')[2].partition('"')[0]


def _supervisors(host: Host, job: str = "train") -> list[str]:
    """Return the process ids of the guard and the supervisor."""
    found = host.run(["pgrep", "-f", f"supervise {job}"], check=False).stdout.split()
    return sorted(found, key=int)


def _break_restores(host: Host) -> None:
    script = '#!/bin/sh\nfor it; do [ "$it" = swrk ] && exit 1; done\nexec /usr/sbin/criu "$@"\n'
    path = host.path("/usr/local/sbin/criu")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
