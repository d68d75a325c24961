"""The supervisor of a job: it saves it from time to time, and when this host is about to go.

One thread decides; others tell it what happens: that the lease is lost, that the job has ended,
that a snapshot is done, that somebody has given notice.
"""

import os
import platform
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final

from spotrun.hooks.notices.notice import Notice
from spotrun.hooks.notices.signals import Signals
from spotrun.hooks.notices.watch import News, Watcher, Withdrawn
from spotrun.images import lease, ledger
from spotrun.images.care import Care
from spotrun.images.errors import (
    EngineError,
    ExitCode,
    LeaseLost,
    NoRoom,
    SpotrunError,
    StoreMissing,
    StoreUnavailable,
)
from spotrun.images.manifest import Manifest
from spotrun.images.prune import prune
from spotrun.images.retention import Reason
from spotrun.runtime import (
    agent,
    chronicle,
    commands,
    ending,
    fence,
    forecast,
    jobs,
    leaving,
    listening,
    locks,
    standing,
    supervising,
    tenure,
    unsent,
)
from spotrun.runtime.beginning import Beginning
from spotrun.runtime.engine import Container
from spotrun.runtime.guard import CRASHED
from spotrun.runtime.heart import Heart
from spotrun.runtime.host import Host
from spotrun.runtime.past import Past
from spotrun.runtime.saving import Saving
from spotrun.runtime.tenure import Tenure
from spotrun.runtime.transaction import Observer

_TICK: Final = 5.0
_RETRY: Final = 60.0
"""Seconds before a snapshot that failed is tried again, at most."""
_HURRY: Final = 2.0
"""Seconds for which a store is waited for, at most, by the way, once the host is about to go."""
_FIRST: Final = 10.0
"""Seconds after the start of a job until its first snapshot, which takes the image along, too."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The container has ended, or its end could not be awaited."""

    code: int | None


@dataclass(frozen=True, slots=True)
class Lost:
    """Another host has the lease."""

    error: LeaseLost


@dataclass(frozen=True, slots=True)
class Saved:
    """A snapshot was made, or given up."""

    status: int


Happening = Ended | Lost | Saved | News


def supervise(host: Host, job: str, heard: Signals, observer: Observer) -> int:
    """Look after a job as long as this host has it; the exit code is for its guard."""
    noted = tenure.of(host.paths, job)
    if noted is None:
        return ExitCode.OK
    happenings: SimpleQueue[Happening] = SimpleQueue()
    supervisor = Supervisor(host, noted, happenings, observer)
    try:
        held = tenure.joined(host, job, noted.store)
    except LeaseLost as error:
        return supervisor.shut_out(error)
    except (StoreUnavailable, StoreMissing) as error:
        observer.note(str(error))
        # The guard sees to it that the job is frozen in time; one that has gone needs nobody.
        return CRASHED if _is_wanted(host, job) else ExitCode.OK
    if held is None:
        return ExitCode.OK
    with Heart(host, job, held, lambda error: happenings.put(Lost(error))):
        begins = Beginning(host, noted, observer, unless=lambda: not happenings.empty())
        care = begins.awaited()
        if care:
            begins.note_if_anew(held)
            with Watcher(listening.sources(host, job, heard)) as watcher:
                listening.pass_on(watcher, happenings.put)
                return supervisor.run(care, watcher)
        begins.bar()
    observer.note("nobody has brought the job up")
    return supervisor.give_up(ended=noted.ended)


def _is_wanted(host: Host, job: str) -> bool:
    """Tell whether a job is here, or about to be."""
    if supervising.launched(host.paths, job):
        return True
    record = jobs.load(host.paths, job)
    return record is not None and record.place is jobs.Place.HERE


class Supervisor:
    """Decides what becomes of one job."""

    def __init__(
        self,
        host: Host,
        noted: Tenure,
        happenings: SimpleQueue[Happening],
        observer: Observer,
    ) -> None:
        """Have nothing begun yet."""
        self._host, self._tenure, self._job = host, noted, noted.job
        self._happenings, self._observer = happenings, observer
        self._guard = os.getppid()
        self._had_agent = agent.alive(host.paths)
        self._since = host.clock.now()
        self._watched: str | None = None
        """The container whose end is awaited."""
        self._saving = Saving(host, noted.job, lambda status: happenings.put(Saved(status)))
        self._said = ""
        self._failed = False
        self._next = monotonic() + _FIRST
        self._leaving: dict[tuple[str, str], tuple[float, Notice]] = {}
        """When each notice that stands is to be followed, by its source and event."""

    def run(self, care: Care, watcher: Watcher) -> int:
        """Act on what happens to a job that runs, until it has gone."""
        self._care = care
        self._watch_end()
        self._past = Past(self._host.of(self._job), self._tenure, self._care)
        self._foretell()
        if self._newest():  # else what is stored is another life's
            self._next = monotonic() + self._past.interval()
        while True:
            self._show()
            try:
                done = self._on(self._happenings.get(timeout=self._pause()))
            except Empty:
                done = self._on_time()
            if done is not None:
                standing.forget(self._host.paths, self._job)
                if done == ExitCode.PREEMPTED and not commands.running(self._host):
                    for _, notice in self._leaving.values():
                        watcher.acknowledge(notice)
                return done

    def shut_out(self, error: LeaseLost) -> int:
        """Freeze the job at once, and end it here: another host has it."""
        self._observer.note(str(error))
        fence.close(self._host.paths, self._job)
        with suppress(SpotrunError):
            found = self._container()
            if found:
                self._host.of(self._job).oci.freeze(found.id)
        self._saving.stop(self._observer, self._host)
        now = self._host.clock.now()
        with locks.hold(self._host.paths.locks, self._job, "leave", now, wait=True):
            taken_back = tenure.of(self._host.paths, self._job) not in {None, self._tenure}
            if taken_back:  # by a migration that has failed
                return CRASHED
            taker = self._taker()  # only now: a migration that hands the lease over has the lock
            left = jobs.has_left(self._host.paths, self._job)
            leaving.drop(self._host, self._job, taker=taker)
            tenure.forget(self._host.paths, self._job)
        reason = f"{taker} has it"
        if left:
            self._write("stopped", reason=reason, snapshot=self._parent)
        else:
            self._write("lost", reason=reason)
        return ExitCode.OK

    def _taker(self) -> str:
        with suppress(SpotrunError):
            record = lease.read(self._host.store(self._tenure.store), self._job)
            if record and record.host != platform.node():
                return record.host
        return "another host"

    def give_up(self, *, ended: int | None = None) -> int:
        """Let others have the lease."""
        try:
            tenure.give_up(self._host, self._job, ended=ended)
        except (StoreUnavailable, StoreMissing) as error:
            # Then they wait until they know that we are gone.
            self._observer.note(str(error))
        return ExitCode.OK

    def _on(self, happening: Happening) -> int | None:
        """Return the exit code if the job has gone."""
        match happening:
            case Lost(error):
                return self.shut_out(error)
            case Ended(code):
                return self._ended(code)
            case Saved(status):
                self._saved(status)
            case Withdrawn(notice):
                self._withdrawn(notice)
            case Notice():
                return self._noticed(happening)
        return None

    def _on_time(self) -> int | None:
        """Do what is due."""
        if os.getppid() != self._guard:  # it has been killed, and this process takes its place
            self._saving.stop(self._observer, self._host)
            again = [*supervising.myself(), supervising.SUPERVISE, self._job]
            os.execv(again[0], again)  # noqa: S606 # it takes no shell
        if self._had_agent and not agent.alive(self._host.paths):
            self._saving.stop(self._observer, self._host)
            return CRASHED  # to begin again with ears of its own
        if self._leaving and monotonic() >= min(self._leaving.values(), key=_when)[0]:
            return self._leave(min(self._leaving.values(), key=_when)[1])
        if monotonic() >= self._next and not self._saving.busy:
            self._saving.begin(self._care)
        return None

    def _pause(self) -> float:
        """Return the seconds until something is due, or may be."""
        due = [] if self._saving.busy else [self._next]
        due += [when for when, _ in self._leaving.values()]
        return max(0.0, min([_TICK, *(it - monotonic() for it in due)]))

    def _noticed(self, notice: Notice) -> int | None:
        left = self._left(notice)
        self._observer.note(f"notice, {left:.0f} s left, by {notice.told}")
        self._write_beside("notice", reason=notice.told, deadline=left)
        if notice.order and left <= agent.FAR:
            return self._leave(notice)
        if notice.order:
            self._leaving[_key(notice)] = monotonic() + left - agent.FAR, notice
        self._next = monotonic()
        return None

    def _withdrawn(self, notice: Notice) -> None:
        self._observer.note(f"the notice by {notice.source} was called off")
        self._leaving.pop(_key(notice), None)

    def _left(self, notice: Notice) -> float:
        left = notice.left()
        return (self._care.grace or agent.GRACE) if left is None else left

    def _saved(self, status: int) -> None:
        self._failed = status != ExitCode.OK
        if not self._failed and (manifest := self._newest()):
            self._past.add(manifest)
            self._prune()
            self._next = monotonic() + max(self._past.interval(), self._debt(manifest))
            self._foretell()
        else:
            self._next = monotonic() + min(_RETRY, self._past.interval())

    def _debt(self, manifest: Manifest) -> float:
        """Return the seconds until a snapshot has kept to the limit, on the average."""
        sent, limit = chronicle.sending(manifest), self._care.upload_limit
        return sent.bytes / limit - sent.seconds if limit else 0.0

    def _foretell(self) -> None:
        """Say whether a last snapshot fits, if that is news."""
        self._foretold = self._past.foretell(self._watched)
        said = forecast.sentence(self._foretold, self._care.grace or forecast.USUAL)
        if said != self._said:
            self._observer.note(said)
            self._said = said

    def _leave(self, notice: Notice) -> int:
        """Save the job and let it go."""
        left = self._left(notice)
        deadline = monotonic() + left
        self._leaving[_key(notice)] = deadline, notice
        whole, self._host = self._host, self._host.hurried(min(_HURRY, left / 4))
        self._saving.stop(self._observer, self._host)
        foretold = self._past.foretell(self._watched)
        self._observer.note(f"leaving: {forecast.sentence(foretold, deadline - monotonic())}")
        try:
            leaving.leave(whole, self._job, foretold, deadline, self._observer)
        except LeaseLost as error:
            return self.shut_out(error)
        return self._stopped(notice.told)

    def _stopped(self, reason: str) -> int:
        self._write("stopped", reason=reason, snapshot=self._parent)
        self.give_up()
        return ExitCode.PREEMPTED

    def _ended(self, seen: int | None) -> int | None:
        """Look whether it has: it may have left, or been started again.

        What was `seen` counts where the container has gone with its end.
        """
        now = self._host.clock.now()
        with locks.hold(self._host.paths.locks, self._job, "supervise", now, wait=True):
            host = self._host.of(self._job)
            try:
                found = host.job_container(self._job)
            except EngineError as error:  # it tells nothing of the job
                self._observer.note(str(error))
                self._watch_end()
                return None
        if jobs.has_left(self._host.paths, self._job):
            return self._stopped("by its user")
        if found and found.running:
            self._watch_end()
            return None
        code = found.exit_code if found else seen
        if code is None:
            code = tenure.last_exit(self._host, self._job)
        self._saving.stop(self._observer, self._host)
        self._observer.note("the job has ended" if code is None else f"the job has ended: {code}")
        self._write("ended", reason="" if code is None else f"exit code {code}")
        return self.give_up(ended=code)

    def _watch_end(self) -> None:
        host = self._host.of(self._job)
        tell = self._happenings.put
        self._watched = ending.watch(host, self._job, lambda code: tell(Ended(code)))

    def _container(self) -> Container | None:
        """Return the job's container, if the engine tells of one."""
        with suppress(EngineError):
            return self._host.of(self._job).job_container(self._job)
        return None

    @property
    def _parent(self) -> str | None:
        """Return the newest snapshot of this life of the job; None: it has none."""
        record = jobs.load(self._host.paths, self._job)
        return record.parent if record else None

    def _newest(self) -> Manifest | None:
        """Return the manifest of the snapshot that was made last."""
        with suppress(SpotrunError):
            if self._parent:
                return self._host.store(self._tenure.store).load(self._job, self._parent)
        return None

    def _prune(self) -> None:
        if self._care.keep.keeps_all:
            return
        try:
            earlier = dict.fromkeys(self._past.earlier, Reason.EARLIER)
            prune(
                self._host.store(self._tenure.store),
                self._care.keep,
                host=platform.node(),
                job=self._job,
                staying=unsent.staying(self._host) | earlier,
            )
        except SpotrunError as error:
            self._observer.note(str(error))

    def _write(self, kind: ledger.Kind, **details: object) -> None:
        epoch = self._tenure.epoch
        chronicle.write(self._host, self._job, self._tenure.store, kind, epoch=epoch, **details)

    def _write_beside(self, kind: ledger.Kind, **details: object) -> None:
        """Write it while something more urgent is done."""
        threading.Thread(target=self._write, args=(kind,), kwargs=details, daemon=True).start()

    def _show(self) -> None:
        """Say how things stand."""
        newest = self._past.newest if self._parent else None
        due = self._host.clock.now() + timedelta(seconds=self._next - monotonic())
        now = standing.Standing(
            pid=os.getpid(),
            since=self._since.isoformat(timespec="seconds"),
            container=self._watched,
            saving=self._saving.busy,
            next=due.isoformat(timespec="seconds"),
            interval=self._past.interval(),
            forecast=self._foretold,
            saved=newest.created if newest else None,
            failed=self._failed,
            leaving=min(self._leaving.values(), key=_when)[1].words if self._leaving else None,
        )
        with suppress(OSError, NoRoom):  # the job is no worse off
            standing.write(self._host.paths, self._job, now)


def _key(notice: Notice) -> tuple[str, str]:
    return notice.source, notice.event


def _when(standing: tuple[float, Notice]) -> float:
    return standing[0]
