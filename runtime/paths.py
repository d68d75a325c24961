"""Every place on a host where spotrun keeps something."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Paths:
    """The state (survives a reboot) and run (does not) folders, and what lies in them."""

    state: Path = Path("/var/lib/spotrun")
    run: Path = Path("/run/spotrun")

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> "Paths":
        """Take both folders from SPOTRUN_STATE and SPOTRUN_RUN where they are set."""
        default = cls()
        return cls(
            state=Path(environment.get("SPOTRUN_STATE", default.state)),
            run=Path(environment.get("SPOTRUN_RUN", default.run)),
        )

    def prepare(self) -> None:
        """Make all folders; memory images hold secrets, so only their owner may look."""
        for folder in (self.state, self.run, self.jobs, self.journal, self.locks, self.plans,
                       self.criu, self.restored):  # fmt: skip
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def store(self) -> Path:
        """The default store."""
        return self.state / "store"

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

    def criu_config(self, job: str) -> Path:
        """Return the CRIU configuration file of a job."""
        return self.criu / f"{job}.conf"
