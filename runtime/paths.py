"""Every place on a host where spotrun keeps something."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spotrun.images.errors import HostUnfit


@dataclass(frozen=True, slots=True)
class Paths:
    """The state folder, which survives a reboot, those of run and memory, and what lies in them."""

    state: Path = Path("/var/lib/spotrun")
    run: Path = Path("/run/spotrun")
    memory: Path = Path("/dev/shm/spotrun")  # noqa: S108 # of root alone, as all three are

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> "Paths":
        """Take the folders from SPOTRUN_STATE, SPOTRUN_RUN and SPOTRUN_MEMORY where set."""
        default = cls()
        return cls(
            state=Path(environment.get("SPOTRUN_STATE", default.state)),
            run=Path(environment.get("SPOTRUN_RUN", default.run)),
            memory=Path(environment.get("SPOTRUN_MEMORY", default.memory)),
        )

    def prepare(self) -> None:
        """Make all folders; memory images hold secrets, so only their owner may look."""
        inner = (self.jobs, self.journal, self.scratch, self.scratch_locks, self.unsent,
                 self.criu, self.locks, self.plans, self.restored, self.afresh,
                 self.networks, self.leases, self.supervisors, self.fences,
                 self.notices, self.answers, self.environments)  # fmt: skip
        for folder in (self.state, self.run, self.memory, *inner):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.state, self.run, self.memory):
            _own(folder)

    @property
    def store(self) -> Path:
        """The default store."""
        return self.state / "store"

    @property
    def scratch(self) -> Path:
        """Files of snapshots that are being made or used."""
        return self.state / "scratch"

    @property
    def cache(self) -> Path:
        """Packs of stores that other hosts use too."""
        return self.state / "cache"

    @property
    def scratch_locks(self) -> Path:
        """Who has which of them, as far as no journal says so."""
        return self.run / "scratch"

    @property
    def unsent(self) -> Path:
        """Records of snapshots that their store could not take."""
        return self.state / "unsent"

    @property
    def jobs(self) -> Path:
        """Records of the jobs of this host."""
        return self.state / "jobs"

    @property
    def journal(self) -> Path:
        """Transactions that have not ended."""
        return self.state / "journal"

    @property
    def shim(self) -> Path:
        """The OCI runtime that is registered with the engine; stable, engines record it."""
        return self.state / "spotrun-oci"

    @property
    def criu(self) -> Path:
        """CRIU configuration files, one a job, named by the containers' annotations."""
        return self.state / "criu"

    @property
    def locks(self) -> Path:
        """Lock files, one a job."""
        return self.run / "locks"

    @property
    def plans(self) -> Path:
        """What the shim is to restore, one file a restore."""
        return self.run / "plans"

    @property
    def restored(self) -> Path:
        """Marks of containers that the shim restored and the engine has yet to start."""
        return self.run / "restored"

    @property
    def notes(self) -> Path:
        """Where the hooks of engines say which containers are to be jobs."""
        return self.run / "adopt"

    @property
    def networks(self) -> Path:
        """Network namespaces that the shim made, one a restored container of Docker's."""
        return self.run / "networks"

    @property
    def afresh(self) -> Path:
        """Marks of jobs that the engine may start once from their begin, though they are saved."""
        return self.run / "afresh"

    @property
    def leases(self) -> Path:
        """Which leases this host has, one file a job."""
        return self.state / "leases"

    @property
    def supervisors(self) -> Path:
        """Their locks, and what they say of themselves, for each job."""
        return self.run / "supervisors"

    @property
    def fences(self) -> Path:
        """Until when jobs may run, one file a job."""
        return self.run / "fences"

    @property
    def notices(self) -> Path:
        """Notices given by hand, one file a job."""
        return self.run / "notices"

    @property
    def answers(self) -> Path:
        """What programs of this host have said of themselves."""
        return self.run / "answers"

    @property
    def environments(self) -> Path:
        """What systemd is to give to supervisors that it starts, one file a job."""
        return self.run / "environments"

    def supervisor_log(self, job: str) -> Path:
        """Return what a job's supervisor has to say."""
        return self.state / f"{job}-supervisor.log"

    def criu_config(self, job: str) -> Path:
        """Return the CRIU configuration file of a job."""
        return self.criu / f"{job}.conf"


def _own(folder: Path) -> None:
    """Refuse a folder that somebody else made first: what is in it may be run as root."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise HostUnfit(message=f"{folder} is a link or belongs to another user; remove it")
    folder.chmod(0o700)
