"""A real Slurm starts a job that has left somewhere else, under the same name."""

import json
import time
from typing import Any

import pytest

from tests.conftest import Hosts
from tests.e2e.jobs import JOBS, await_end, lines, spotrun, start
from tests.e2e.s3 import served
from tests.e2e.spot import until
from tests.lab.host import Host
from tests.lab.images import name
from tests.lab.lab import Lab
from tests.lab.root import REPOSITORY
from tests.lab.slurm import Cluster, Job

pytestmark = [pytest.mark.lab, pytest.mark.slow]

_TEMPLATE = REPOSITORY / "hooks/slurm/spotrun.sbatch"
_LINE = "exec spotrun run --scheduler slurm --store s3://bucket/prefix"
_TRAIN = ("python3", "/jobs/train.py", "110", "256", "0", "0.3")
_LEASE = "SPOTRUN_LEASE_SECONDS=6"
_SPOTRUN = '#!/bin/sh\nexec /opt/spotrun/venv/bin/python -m tests.e2e.standin "$@"\n'
_KEPT = "SLURM_CLUSTER_NAME,SLURM_JOB_ID,SLURM_RESTART_COUNT"
_USER = "nobody"


class Jobs:
    """A cluster with jobs by the template, and what their spotrun has said."""

    def __init__(self, lab: Lab, hosts: list[Host], *, snippet: bool = True) -> None:
        """Give the template to the controller, and a stand-in for spotrun to the nodes."""
        controller, *nodes = hosts
        self.cluster = Cluster(controller, nodes, snippet=snippet)
        self.template = controller.path("/root/spotrun.sbatch")
        self.template.write_text(_TEMPLATE.read_text())
        for node in nodes:
            node.path("/usr/local/bin/spotrun").write_text(_SPOTRUN)
        self._shared = lab.shared

    def submit(self, *options: str, user: str = "root") -> str:
        """Submit a job by the template and wait until it runs."""
        script = "/root/spotrun.sbatch" if user == "root" else "/mnt/machine/spotrun.sbatch"
        job = self.cluster.submit(
            *options, "--output=/mnt/machine/%j.log", script, "an image", "sleep", user=user
        )
        self.cluster.reach(job, "RUNNING")
        self.starts(job)
        return job

    def starts(self, job: str, count: int = 1) -> list[dict[str, Any]]:
        """Return what a job has said of itself each time, once it has begun so often."""
        return self._lines(job, "identity", count)

    def left(self, job: str) -> list[str]:
        """Return what was in the way each time that a job has left, once it has."""
        return [line["left"] for line in self._lines(job, "left", 1)]

    def notice(self, job: str) -> None:
        """Send the signal that a cloud's shutdown or an administrator would send."""
        self.cluster.run("scancel", "--batch", "--signal=TERM", job)

    def host(self, job: Job) -> Host:
        """Return the node that a running job is on."""
        return self.cluster.nodes[job["NodeList"]]

    def _lines(self, job: str, what: str, count: int) -> list[dict[str, Any]]:
        log = self._shared / f"{job}.log"
        deadline = time.monotonic() + 10
        while True:
            said = log.read_text() if log.exists() else ""
            lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
            found = [line for line in lines if what in line]
            if len(found) >= count:
                return found
            assert time.monotonic() < deadline, said
            time.sleep(0.05)


def test_template_is_accepted(lab: Lab, hosts: Hosts) -> None:
    """By sbatch itself, with all its options."""
    jobs = Jobs(lab, hosts(2, images=()))
    jobs.cluster.run("sbatch", "--test-only", "/root/spotrun.sbatch")
    job = jobs.submit()
    found = jobs.cluster.job(job)
    assert (found["Requeue"], found["JobName"]) == ("1", "spotrun")
    assert jobs.starts(job)[0]["image"] == ["an image", "sleep"]


def test_preempted_job_goes_on_on_the_other_node(lab: Lab, hosts: Hosts) -> None:
    """It hears of it at once, not after the time of grace, and stays the same job."""
    jobs = Jobs(lab, hosts(3, images=()))
    job = jobs.submit()
    first = jobs.cluster.job(job)["NodeList"]
    begun = time.monotonic()
    urgent = jobs.cluster.submit("--partition=urgent", f"--nodelist={first}", "--wrap=sleep 300")
    assert jobs.left(job) == [""]
    assert time.monotonic() - begun < 10
    assert jobs.cluster.reach(urgent, "RUNNING")["NodeList"] == first
    second = jobs.cluster.reach(job, "RUNNING", restarts=1)["NodeList"]
    before, after = jobs.starts(job, 2)
    assert (before["host"], after["host"]) == (first, second)
    assert first != second
    assert (before["restarts"], after["restarts"]) == (0, 1)
    assert before["identity"] == after["identity"] == f"slurm-lab-{job}"
    jobs.cluster.run("scancel", job, urgent)
    jobs.cluster.reach(job, "CANCELLED", restarts=1)
    assert set(jobs.cluster.ended()) == {job, urgent}


def test_job_of_a_node_without_power_goes_on_on_the_other(lab: Lab, hosts: Hosts) -> None:
    """When Slurm gives the node up; nobody has told the job."""
    jobs = Jobs(lab, hosts(3, images=()))
    job = jobs.submit()
    first = jobs.host(jobs.cluster.job(job))
    first.power_off()
    second = jobs.host(jobs.cluster.reach(job, "RUNNING", restarts=1))
    before, after = jobs.starts(job, 2)
    assert (before["host"], after["host"]) == (first.name, second.name)
    assert first is not second
    assert before["identity"] == after["identity"]
    assert after["restarts"] == 1


def test_training_goes_on_on_the_other_node(hosts: Hosts) -> None:
    """With spotrun itself: preempted, then without power; PyTorch comes to the same weights."""
    controller, *nodes = hosts(3, images=("torch",))
    start(controller, "still", "torch", *_TRAIN)
    with served(controller, *nodes) as store:
        cluster = Cluster(controller, nodes)
        line = f"exec spotrun run --scheduler slurm --store '{store}' --every 3s"
        text = _TEMPLATE.read_text().replace(_LINE, f"export {_LEASE}\n{line}")
        assert line in text
        script = controller.path("/root/spotrun.sbatch")
        script.write_text(text)
        words = ["-v", f"{JOBS}:/jobs:ro", name("torch"), *_TRAIN]
        job = cluster.submit("--output=/mnt/machine/%j.log", "/root/spotrun.sbatch", *words)
        first = cluster.reach(job, "RUNNING")["NodeList"]
        _until_saved(controller, store, job, 1)
        urgent = cluster.submit("--partition=urgent", f"--nodelist={first}", "--wrap=sleep 300")
        second = cluster.reach(job, "RUNNING", restarts=1)["NodeList"]
        assert second != first
        cluster.run("scancel", urgent)
        _until_saved(controller, store, job, 4)
        cluster.nodes[second].power_off()
        assert cluster.reach(job, "RUNNING", restarts=2)["NodeList"] == first
        cluster.reach(job, "COMPLETED", restarts=2, seconds=180)
        assert await_end(controller, "still") == 0
        told = ["history", f"slurm-lab-{job}", f"--store={store}"]
        until(lambda: spotrun(controller, *told)["events"][-1]["kind"] == "ended")
        events = spotrun(controller, *told)["events"]
        assert [it["rung"] for it in events if it["rung"]] == ["fresh", "live", "live"]
        whole = cluster.nodes[first].run(["spotrun", "logs", f"slurm-lab-{job}"]).stdout
        assert whole.splitlines() == lines(controller, "still")
        assert set(cluster.ended()) == {job, urgent}


def _until_saved(host: Host, store: str, job: str, count: int) -> None:
    """Wait until a job has so many snapshots."""
    deadline = time.monotonic() + 90
    argv = ["spotrun", "snapshots", f"slurm-lab-{job}", f"--store={store}", "--format=json"]
    while True:
        done = host.run(argv, check=False)
        if done.returncode == 0 and len(json.loads(done.stdout)["data"]) >= count:
            return
        assert time.monotonic() < deadline, done
        time.sleep(0.5)


def test_cluster_that_knows_nothing_of_exit_codes(lab: Lab, hosts: Hosts) -> None:
    """The job asks for its requeue itself."""
    jobs = Jobs(lab, hosts(2, images=()), snippet=False)
    job = jobs.submit()
    jobs.notice(job)
    jobs.cluster.reach(job, "RUNNING", restarts=1)
    before, after = jobs.starts(job, 2)
    assert before["identity"] == after["identity"]


def test_tasks_of_an_array_are_jobs_of_their_own(lab: Lab, hosts: Hosts) -> None:
    """Each keeps its name when it is started again."""
    jobs = Jobs(lab, hosts(3, images=()))
    last = jobs.submit("--array=1-2")
    numbers = [last, str(int(last) + 1)]
    names = [jobs.starts(number)[0]["identity"] for number in numbers]
    assert names == [f"slurm-lab-{number}" for number in numbers]
    jobs.notice(last)
    again = [jobs.starts(number, 2)[1] for number in numbers]
    assert [(it["identity"], it["restarts"]) for it in again] == [(name, 1) for name in names]


def test_job_of_a_user_who_is_not_root(lab: Lab, hosts: Hosts) -> None:
    """By sudo, which passes the signal on; the job must be told to keep who it is."""
    controller, node = hosts(2, images=())
    jobs = Jobs(lab, [controller, node])
    sudo = f"exec sudo --preserve-env={_KEPT} spotrun"
    lab.shared.chmod(0o777)
    shared = lab.shared / "spotrun.sbatch"
    shared.write_text(_TEMPLATE.read_text().replace("exec spotrun", sudo))
    rule = f"{_USER} ALL=(root) NOPASSWD:SETENV: /usr/local/bin/spotrun\n"
    node.path("/etc/sudoers.d/spotrun").write_text(rule)
    job = jobs.submit("--chdir=/tmp", user=_USER)
    jobs.notice(job)
    jobs.cluster.reach(job, "RUNNING", restarts=1)
    before, after = jobs.starts(job, 2)
    assert jobs.left(job) == [""]
    assert before["user"] == after["user"] == 0
    assert before["identity"] == after["identity"] == f"slurm-lab-{job}"
    assert jobs.cluster.job(job)["UserId"].startswith(_USER)
