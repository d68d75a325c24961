"""A real Slurm cluster on lab hosts, configured by what spotrun ships for administrators."""

import time
from collections.abc import Callable, Sequence

from tests.lab.host import Host
from tests.lab.root import REPOSITORY
from tests.lab.shell import LabError

Job = dict[str, str]
SNIPPET = REPOSITORY / "hooks/slurm/slurm.conf.snippet"
_CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={controller}
SlurmUser=root
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
JobCompType=jobcomp/filetxt
JobCompLoc=/var/log/slurm-jobs
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
ReturnToService=2
# two seconds for each decision, and some ten until a silent node is given up
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SlurmdTimeout=5
MessageTimeout=3
TCPTimeout=1
PreemptType=preempt/partition_prio
NodeName={nodes} CPUs=1 RealMemory=500
PartitionName=spot Nodes={nodes} PriorityTier=1 GraceTime=30 Default=YES
PartitionName=urgent Nodes={nodes} PriorityTier=2 PreemptMode=OFF
"""
_SNIPPETS_DELAY, _DELAY = "cred_expire=30", "cred_expire=5"
"""Slurm takes nothing below the latter."""
_MUNGE = """
install -d -o munge -g munge /run/munge
exec setpriv --reuid=munge --regid=munge --clear-groups munged
"""


class Cluster:
    """One controller, and nodes with one processor each; gone with its hosts."""

    def __init__(self, controller: Host, nodes: Sequence[Host], *, snippet: bool = True) -> None:
        """Start it, with the settings that spotrun asks of an administrator or without."""
        self.nodes = {node.name: node for node in nodes}
        self._controller = controller
        text = _CONFIGURATION.format(controller=controller.name, nodes=",".join(self.nodes))
        text += SNIPPET.read_text().replace(_SNIPPETS_DELAY, _DELAY) if snippet else _bare()
        for host in (controller, *nodes):
            host.path("/etc/slurm/slurm.conf").write_text(text)
            # a host of the lab has no systemd that could make the cgroups of its jobs
            host.path("/etc/slurm/cgroup.conf").write_text("CgroupPlugin=disabled\n")
            host.run(["mkdir", "-p", "/var/spool/slurmctld", "/var/spool/slurmd"])
            host.run(["sh", "-ec", _MUNGE])
        controller.run(["slurmctld"])
        for node in nodes:
            self.start_node(node)

    def start_node(self, node: Host) -> None:
        """Start its daemon and wait until it gets jobs."""
        node.run(["slurmd", "-N", node.name])
        _until(lambda: self.state_of(node) == "idle", 10, self.log)

    def state_of(self, node: Host) -> str:
        """Return what Slurm says of it: `idle`, `down*`, …."""
        shown = self.run("sinfo", "--noheader", "--format=%T", f"--nodes={node.name}")
        return (shown.split() or ["unknown"])[0]

    def run(self, *argv: str) -> str:
        """Run one of Slurm's commands on the controller."""
        return self._controller.run(argv).stdout

    def submit(self, *argv: str, user: str = "root") -> str:
        """Submit a batch job and return its number."""
        as_user = [] if user == "root" else ["sudo", "--user", user]
        return self.run(*as_user, "sbatch", "--parsable", *argv).strip()

    def job(self, number: str) -> Job:
        """Return what `scontrol show job` says of a job."""
        shown = self.run("scontrol", "show", "job", number, "--oneliner")
        return {name: value for name, _, value in (it.partition("=") for it in shown.split())}

    def reach(self, number: str, state: str, *, restarts: int = 0, seconds: float = 60) -> Job:
        """Wait until a job is in a state, having been started again so often, and return it."""

        def reached() -> bool:
            job = self.job(number)
            return job["JobState"] == state and job["Restarts"] == str(restarts)

        _until(reached, seconds, lambda: f"{self.job(number)}\n{self.log()}")
        return self.job(number)

    def log(self) -> str:
        """Return what the controller has logged."""
        return self._controller.path("/var/log/slurmctld.log").read_text()

    def ended(self) -> list[str]:
        """Return the numbers of the jobs in the accounts: one for every end of a job."""
        lines = self._controller.path("/var/log/slurm-jobs").read_text().splitlines()
        return [line.split()[0].removeprefix("JobId=") for line in lines]


def _bare() -> str:
    """Return what is left of the snippet where nobody has read it."""
    return f"PreemptMode=REQUEUE\nAuthInfo={_DELAY}\n"


def _until(condition: Callable[[], bool], seconds: float, said: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"Slurm, not in {seconds} s:\n{said()[-6000:]}")
        time.sleep(0.05)
