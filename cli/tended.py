"""What `run` does with a job that is looked after: it goes on where it stood, or begins."""

import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Final, NoReturn, Self

from spotrun.cli import wishes
from spotrun.cli.launching import ABOUT_TO_GO, Given
from spotrun.cli.outlook import Outlook
from spotrun.cli.output import Output
from spotrun.cli.result import Result
from spotrun.hooks.notices import file
from spotrun.hooks.notices.command import Command
from spotrun.images.errors import ExitCode, SpotrunError, Terminated, UsageError
from spotrun.images.logfile import Excerpt
from spotrun.images.runspec import RunSpec
from spotrun.runtime import coming, commands, grammar, jobs, launcher, lookup, probe, supervising
from spotrun.runtime.coming import Came, Wish
from spotrun.runtime.host import Host

_INTERACTIVE: Final = ("--tty", "--interactive")


def launch(host: Host, given: Given, told: Output) -> Result:
    """Let a job go on or begin, and stay with it unless it is detached."""
    if given.verb != "run":
        raise UsageError(message=f"{given.verb} makes no job that comes back: use run")
    scheduler = wishes.scheduler(given.own)
    wish = wishes.wish(given.own, given.store or host.own_store, scheduler)
    if "--store" not in given.own:  # its variable is for jobs that have no other
        wish = replace(wish, store=lookup.store_of(host, wish.job, None) or wish.store)
    probe.refuse(host, given.spec, wish.care.probe)
    command = wish.care.notice_command
    if command and not Command(command, host.runner).probe():
        raise UsageError(message=f"--notice-command cannot be run: {command}")
    if wish.store == host.own_store:
        told.note("its snapshots stay on this host: --store names a place that others reach")
    result = _Launch(host.of(wish.job), given, wish, told).run()
    if result.exit_code == ExitCode.PREEMPTED and scheduler:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Slurm sends one to whoever is to requeue
        if trouble := scheduler.leave(host.runner):
            told.note(trouble)
    return result


def _named(spec: RunSpec, job: str) -> RunSpec:
    """Give the container the job's name, which it may have been given already."""
    given = grammar.value(spec.options, "--name")
    if given not in {None, job}:
        raise UsageError(message=f"--name is {given!r} and --job {job!r}: one is enough")
    return spec if given else replace(spec, options=(*spec.options, f"--name={job}"))


class _Launch:
    def __init__(self, host: Host, given: Given, wish: Wish, told: Output) -> None:
        self._host, self._wish, self._told = host, wish, told
        self._spec, self._attached = _named(given.spec, wish.job), given.attached
        self._interactive = any(grammar.flag(self._spec.options, it) for it in _INTERACTIVE)
        self._outlook = Outlook(host, wish, told.note)

    def run(self) -> Result:
        begun = self._host.clock.now()
        with _Heard() as heard:
            try:
                came = self._come(heard)
            except Terminated:
                self._told.note(ABOUT_TO_GO)
                return self._result(Came(None), ExitCode.PREEMPTED)
            self._say(came)
            if came.exit_code is not None:
                return self._result(came, came.exit_code)
            if not self._attached or self._interactive:
                self._outlook.tell_now()
            status = self._stay(came.since or begun) if self._attached else int(ExitCode.OK)
            return self._result(came, status)

    def _part(self) -> None:
        """Let the supervisor of a job that has gone write that down, and give its lease up."""
        with suppress(SpotrunError):
            supervising.await_end(self._host, self._wish.job)

    def _come(self, heard: "_Heard") -> Came:
        """Let the job run here; a signal that comes when it does so already is for the job."""
        try:
            came = coming.come(self._host, self._wish, self._begin, self._told)
        except KeyboardInterrupt:
            if not coming.is_looked_after(self._host, self._wish.job):
                raise
            came = Came(None)
        if self._attached and came.exit_code is None:
            heard.pass_on(term=self._give_notice, interrupt=self._interrupt)
        else:
            heard.pass_on(term=_nothing, interrupt=_nothing)
        return came

    def _begin(self, epoch: int) -> int:
        tended = launcher.Tended(epoch, self._wish.care, self._give_notice)
        with self._company():
            return launcher.run(
                self._host,
                self._spec,
                store=self._wish.store,
                silent=self._told.json,
                tell=self._told.note,
                tended=tended,
            ).exit_code

    @contextmanager
    def _company(self) -> Iterator[None]:
        """Have it looked after while this is its terminal.

        What is foretold is told, unless the terminal is the job's own.
        """
        with ExitStack() as stack:
            if self._attached:
                stack.enter_context(supervising.upheld(self._host, self._wish.job))
            if self._attached and not self._interactive:
                stack.enter_context(self._outlook.followed())
            yield

    def _say(self, came: Came) -> None:
        job = self._wish.job
        if came.rung == "live":
            self._told.note(f"job {job!r} goes on from {came.snapshot}")
            self._say_if_other()
        elif came.rung == "files":
            self._told.note(f"job {job!r} starts again with the files of {came.snapshot}")
        elif came.rung is None and came.exit_code is None:
            self._told.note(f"job {job!r} is here, and looked after")
            self._say_if_other()
        elif came.rung is None:
            self._told.note(f"job {job!r} has come to its end; --fresh begins it anew")

    def _say_if_other(self) -> None:
        """Tell whoever takes the job for another one what it runs."""
        record = jobs.load(self._host.paths, self._wish.job)
        if record:
            runs, wanted = ((it.image, *it.command) for it in (record.run, self._spec))
            if runs != wanted:
                self._told.note(f"it runs {shlex.join(runs)}, and goes on with that")

    def _result(self, came: Came, status: int) -> Result:
        if self._attached:
            self._part()
        if status == ExitCode.PREEMPTED:
            with suppress(SpotrunError):
                self._told.note(str(jobs.absent(self._host.paths, self._wish.job)))
        data = {"job": self._wish.job, "rung": came.rung, "snapshot": came.snapshot}
        shown = None
        if not self._attached and came.rung != "fresh" and came.exit_code is None:
            found = self._host.of(self._wish.job).container(self._wish.job)
            shown = found.id if found else None
        return Result({**data, "exit_code": status}, shown, exit_code=status)

    def _stay(self, begun: datetime) -> int:
        """Be the terminal of a job that runs already, from its first line here."""
        host, job = self._host.of(self._wish.job), self._wish.job
        if self._interactive:
            with self._company():
                status = host.engine.command(["attach", job], on_term=self._give_notice)
            left = jobs.has_left(host.paths, job)
            return ExitCode.PREEMPTED if left else status
        found = host.container(job)
        if found is None:
            return commands.wait(host, [job])[0]
        with self._company():
            for line in host.engine.logs(found.id, follow=True, part=Excerpt(since=begun)):
                self._told.log(line)
            return commands.exit_code(host, found)

    def _interrupt(self) -> None:
        self._host.of(self._wish.job).engine.command(
            ["kill", "--signal=INT", self._wish.job], silent=True
        )

    def _give_notice(self) -> None:
        """Have the supervisor save the job, and stay until that is done."""
        file.give(self._host.paths.notices / self._wish.job, self._wish.care.grace, why="SIGTERM")


def _nothing() -> None:
    pass


class _Heard:
    """SIGTERM and Ctrl-C: they take back what is under way, and when the job is here, are its own.

    What Python loses, which it does with an exception where none may be, is passed on likewise.
    """

    def __init__(self) -> None:
        self._early: list[int] = []
        self._acts: dict[int, Callable[[], None]] = {}

    def __enter__(self) -> Self:
        signals = (signal.SIGTERM, signal.SIGINT)
        self._before = {it: signal.signal(it, self._take_back) for it in signals}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def pass_on(self, *, term: Callable[[], None], interrupt: Callable[[], None]) -> None:
        """Do that from now on, and for those that came before."""
        self._acts = {signal.SIGTERM: term, signal.SIGINT: interrupt}
        for number in self._acts:
            signal.signal(number, self._pass_on)
        for number in self._early:
            self._pass_on(number)

    def _take_back(self, number: int, _: object) -> NoReturn:
        self._early.append(number)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def _pass_on(self, number: int, _: object = None) -> None:
        self._acts[number]()
