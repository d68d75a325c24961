"""Every error spotrun raises, with its message, exit code and hint.

    SpotrunError                    125
    |- Refused                      nothing was touched
    |  |- UsageError                bad command line or configuration
    |  |- HostUnfit                 this host lacks something; see `spotrun doctor`
    |  |- JobNotFound
    |  |  |- JobStored              it is only a snapshot
    |  |  |- JobUnsaved             it has left, and is not even that
    |  |  |- JobMoved               it is on another host
    |  |  `- JobUntended            it is here, and nobody looks after it
    |  |- JobBusy                   another spotrun works on the job
    |  |- Unsettled                 what an earlier one left could not be set right yet
    |  |- StateDamaged              a file of spotrun's own makes no sense
    |  |- NameTaken                 a container that must stay has the job's name
    |  |- NotCapturable
    |  |- SnapshotNotFound
    |  |- SnapshotDamaged
    |  |- StoreMissing              there is no store at that place
    |  |- StoreLocked               it is encrypted, and the key does not fit
    |  |- StoreForeign              it is no store of this spotrun's format
    |  |- LeaseHeld                 another host may run the job
    |  |- SnapshotsInUse            another host may need them
    |  |- NotExportable             a snapshot cannot leave the store in that form
    |  |- ArchiveUnfit              an engine's checkpoint archive cannot become a snapshot
    |  `- NotRestorable
    |     `- ImageMissing           nor is a fresh start possible
    |- Failed                       it was tried, and all of it taken back
    |  |- CaptureFailed             the job goes on at the source
    |  |- Unsent                    so it does, and its snapshot waits on this host
    |  |- RestoreFailed             nothing is left of the attempt
    |  `- TargetUnreachable
    |- LeaseLost                    this host may not run the job, or no longer
    |- Unfinished                   it took effect; the next spotrun does the rest
    |- ToolError                    a program that spotrun uses said no
    |  |- EngineError
    |  |  `- NotHere                the engine has no such object
    |  |- OciError                  the OCI runtime or CRIU
    |  `- CommandFailed             any other child process
    |- StoreUnavailable             it does not answer as it must, or is not there
    |  |- StoreDenied               credentials or permissions
    |  `- StoreFull
    |- RegistryUnavailable          it does not answer as it must
    |  `- RegistryDenied            credentials or permissions
    |- NoRoom                       on a file system of this host
    `- Interrupted                  130

A message template is filled from the keyword arguments, which stay attributes of the error.
`Preempted` (85) is not an error but the outcome of a job; see `ExitCode`.
"""

from enum import IntEnum
from pathlib import Path
from typing import ClassVar


class ExitCode(IntEnum):
    """The exit codes of the command line; any other one is the container's own."""

    OK = 0
    PREEMPTED = 85
    OWN_ERROR = 125
    CANNOT_INVOKE = 126
    NOT_FOUND = 127
    INTERRUPTED = 130


class SpotrunError(Exception):
    """An error that a user can act on: one sentence, a hint, and where to read more."""

    template: ClassVar[str] = "{message}"
    hint: ClassVar[str] = ""
    exit_code: ExitCode = ExitCode.OWN_ERROR

    def __init__(self, *, log: Path | None = None, **fields: object) -> None:
        """Fill the template with the fields; `log` is the raw log to read next."""
        self.fields = fields
        self.log = log
        super().__init__(self.template.format(**fields))

    @property
    def code(self) -> str:
        """The stable identifier of the error for programs: its class name."""
        return type(self).__name__


class Refused(SpotrunError):
    """It cannot be done; nothing was touched."""


class UsageError(Refused):
    """The command line or the configuration makes no sense."""

    hint = "see `spotrun COMMAND --help`"


class HostUnfit(Refused):
    """This host cannot freeze or restore a container."""

    hint = "`spotrun doctor` lists every requirement with its fix"


class JobNotFound(Refused):
    """No container and no snapshot of that name."""

    template = "no job named {job!r} on this host"
    hint = (
        "`spotrun ps` lists the jobs; `spotrun history JOB --store PLACE` tells of those that a"
        " store knows"
    )


class JobStored(JobNotFound):
    """The job has no container: it is a snapshot, and can go on."""

    template = "job {job!r} {verb} stored as {snapshot}{part}: `{command}` goes on with it"
    hint = ""


class JobUnsaved(JobNotFound):
    """The job has left this host, and nothing of it could be saved."""

    template = (
        "job {job!r} left this host, and nothing of it could be saved:"
        " `spotrun run --job {job} …` begins it anew"
    )
    hint = ""


class JobMoved(JobNotFound):
    """The job is on another host."""

    template = "job {job!r} has moved to {target}"
    hint = "see `spotrun ps` there"


class JobUntended(JobNotFound):
    """The job has no supervisor."""

    template = "nobody looks after job {job!r} on this host"
    hint = "`spotrun run --job NAME …` makes a job that is looked after, and takes on one that was"


class JobBusy(Refused):
    """Another spotrun process holds the job."""

    template = "job {job!r} is busy: pid {pid} has been at {verb!r} since {since}"
    hint = "wait for it to end; it settles the job also when it fails"


class Unsettled(Refused):
    """An interrupted transaction of the job could be neither finished nor taken back so far."""

    template = "an interrupted {verb} of job {job!r} is not settled yet"
    hint = "every spotrun command tries, and says what is in its way: see `spotrun ps`"


class StateDamaged(Refused):
    """A file in which spotrun keeps what it knows of a job makes no sense."""

    template = "{file} cannot be read: {reason}"
    hint = "if its job is not needed here any more, remove the file"


class NameTaken(Refused):
    """The engine has a container of that name which must stay: another's, or one in use."""

    template = "the name {name!r} is taken on {where} by container {container}"
    hint = "give another one with --name, or remove that container"


class NotCapturable(Refused):
    """The job cannot be saved as it is; it was not touched."""

    template = "job {job!r} cannot be saved: {reason}"


class SnapshotNotFound(Refused):
    """The store has no such snapshot."""

    template = "no snapshot {which} in {store}"
    hint = "`spotrun snapshots` lists them, with --store those of another store"


class SnapshotDamaged(Refused):
    """A snapshot's object is missing or not what the manifest says."""

    template = "snapshot {snapshot} is damaged: {reason}"


class StoreMissing(Refused):
    """There is no store at that place."""

    template = "there is no store at {store}"
    hint = "is it mounted? `spotrun run --store` and `spotrun checkpoint --store` make a new one"


class StoreLocked(Refused):
    """The store is encrypted and cannot be opened."""

    template = "store {store} cannot be opened: {reason}"
    hint = "name the file that has its key with --key-file, or set SPOTRUN_KEY"


class StoreForeign(Refused):
    """What is there is not a store that this spotrun knows."""

    template = "store {store} cannot be used: {reason}"


class LeaseHeld(Refused):
    """Another host may run the job; in `wait` seconds it may be known to have stopped."""

    template = "job {job!r} belongs to host {host}"
    hint = "it is taken over when that host has not been heard of for long enough"


class SnapshotsInUse(Refused):
    """Another host has the job's lease, and may need its snapshots."""

    template = "job {job!r} belongs to host {host}, which may need its snapshots"
    hint = "`spotrun rm -f --snapshots` removes them all the same"


class NotExportable(Refused):
    """A snapshot cannot leave its store in that form; it is untouched."""

    template = "snapshot {snapshot} cannot be {verb}: {reason}"


class ArchiveUnfit(Refused):
    """A checkpoint archive of an engine cannot become a snapshot."""

    template = "archive {archive} cannot be imported: {reason}"


class NotRestorable(Refused):
    """The snapshot does not fit this host; nothing was created."""

    template = "snapshot {snapshot} cannot be restored on {where}: {reason}"


class ImageMissing(NotRestorable):
    """Its image is not to be had just now; all its snapshots, and a fresh start, need that."""


class Failed(SpotrunError):
    """It was tried and did not work; all of it has been taken back."""


class CaptureFailed(Failed):
    """The snapshot was not made; the job goes on."""

    template = "job {job!r} was not saved and goes on: {reason}"


class Unsent(Failed):
    """The store did not take the snapshot, which is kept on this host; the job goes on."""

    template = "snapshot {snapshot} of job {job!r} is kept on this host: {reason}"
    hint = "the job goes on; `spotrun push` sends it when the store can be reached again"


class RestoreFailed(Failed):
    """The restore was tried and taken back; the snapshot is untouched."""

    template = "snapshot {snapshot} was not restored: {reason}"


class TargetUnreachable(Failed):
    """The target host of a migration does not answer as it must."""

    template = "{target} cannot be used: {reason}"
    hint = "the target needs sshd, root and spotrun; try `ssh HOST spotrun doctor`"


class LeaseLost(SpotrunError):
    """This host does not hold the job's lease: it must not run the job, nor publish."""

    template = "this host does not hold the lease of job {job!r}: {reason}"


class Unfinished(SpotrunError):
    """It took effect, and what is left to do failed."""

    template = "{verb} of job {job!r} is done, but not {phase!r} after it: {reason}"
    hint = "the next spotrun command on this host does it"


class ToolError(SpotrunError):
    """A program that spotrun uses refused or failed."""


class EngineError(ToolError):
    """The container engine refused or failed."""

    template = "{engine}: {reason}"


class NotHere(EngineError):
    """The engine has no such container, image or volume."""


class OciError(ToolError):
    """The OCI runtime or CRIU refused or failed."""

    template = "{action} failed: {reason}"


class CommandFailed(ToolError):
    """A child process ended with an error."""

    template = "{command} ended with {status}: {reason}"


class StoreUnavailable(SpotrunError):
    """The store cannot be reached, is not there, or does not answer as it must."""

    template = "store {store} cannot be used: {reason}"
    hint = "check its name and endpoint, and that this host reaches it"


class StoreDenied(StoreUnavailable):
    """The store does not accept who asks, or does not let them."""

    hint = "check the credentials that this host has for the store, and what they permit"


class StoreFull(StoreUnavailable):
    """The store has no room left, or a quota is used up."""

    hint = "remove snapshots that are not needed, or make room for the store"


class RegistryUnavailable(SpotrunError):
    """The registry cannot be reached or does not answer as it must."""

    template = "registry {registry} cannot be used: {reason}"
    hint = "check its name, and that this host reaches it"


class RegistryDenied(RegistryUnavailable):
    """The registry does not accept who asks, or does not let them."""

    hint = "log in with `podman login` or `docker login`, and check what the account may do"


class NoRoom(SpotrunError):
    """A file system of this host is full, or its user may have no more of it."""

    template = "there is no room left in {folder}"
    hint = "make room there, and try again"


class Interrupted(SpotrunError):
    """The user pressed Ctrl-C; what was under way has been taken back."""

    template = "interrupted"
    exit_code = ExitCode.INTERRUPTED


class Terminated(KeyboardInterrupt):
    """SIGTERM came: this host, or whoever started spotrun, is about to go."""
