"""Jobs that come back: one command line for all hosts, and what is told of them."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spotrun.cli import opened, outlook, wishes
from spotrun.cli import supervise as supervise_verb
from spotrun.images import lease, ledger
from spotrun.images.address import Address
from spotrun.images.care import Care, Policy
from spotrun.images.errors import Terminated, UsageError
from spotrun.images.ledger import Event
from spotrun.images.logfile import Excerpt, LogLine
from spotrun.images.manifest import Kind
from spotrun.images.process import Completed
from spotrun.runtime import coming, engines, jobs, restoring, standing, supervising, tenure
from spotrun.runtime.coming import Wish
from spotrun.runtime.forecast import Forecast
from spotrun.runtime.host import Host
from spotrun.runtime.paths import Paths
from spotrun.runtime.standing import Standing
from spotrun.runtime.transaction import Observer
from tests.cli.conftest import TALK, Cli, Said
from tests.fakes import living as living_module
from tests.fakes.engine import Ended
from tests.fakes.host import FakeHost
from tests.fakes.living import COMMAND, IMAGE, JOB, Living, is_live, living, supervised, until
from tests.fakes.partitions import Fate, Passage, World

_GOLDEN = Path(__file__).parent / "golden"
_LINES = (LogLine("stdout", b"out\n"), LogLine("stderr", b"err\n"))
_SCHEDULERS = ("SKYPILOT_TASK_ID", "SLURM_JOB_ID", "_CONDOR_JOB_AD", "AWS_BATCH_JOB_ID")
_STANDING = Standing(
    pid=17,
    since="2026-12-01T10:00:00+00:00",
    container="c" * 64,
    saving=False,
    next="2026-12-01T10:10:00+00:00",
    interval=600.0,
    forecast=Forecast(30.0, 5.0, 3),
    saved="2026-12-01T10:05:00.000+00:00",
    leaving=None,
)

Run = Callable[..., Said]


def _golden(name: str) -> Any:  # noqa: ANN401 # any JSON
    return json.loads((_GOLDEN / f"{name}.json").read_bytes())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Living]:
    """Give a host on which jobs can be saved, and where nobody looks long whether one is well."""
    monkeypatch.setattr(restoring, "_PROBE_SECONDS", 0.0)
    for variable in _SCHEDULERS:
        monkeypatch.delenv(variable, raising=False)
    with living(tmp_path / "host-a", monkeypatch, World()) as made:
        made.engine.programs[TALK] = Ended(_LINES, 7)
        yield made


@pytest.fixture
def fake(here: Living, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """Have the command line work on that host."""
    monkeypatch.setattr(engines, "program", lambda name: name == "podman")
    for module in (opened, supervise_verb):
        monkeypatch.setattr(module, "this_host", lambda: here.host)
    return FakeHost(here.host, here.engine, here.oci, here.runner)


@pytest.fixture
def looked_after(here: Living) -> Iterator[threading.Event]:
    """Have supervisors that do nothing, until the event."""
    with supervised(here) as over:
        yield over


@pytest.fixture
def run(cli: Cli, here: Living, looked_after: threading.Event) -> Run:  # noqa: ARG001
    """Give a function that runs the job with some options."""

    def started(*options: str, command: tuple[str, ...] = COMMAND) -> Said:
        return cli("run", f"--job={JOB}", f"--store={here.address.url}", *options, IMAGE, *command)

    return started


@pytest.fixture
def saved(here: Living) -> str:
    """Give a snapshot that the job has left here some time ago."""
    here.begin(epoch=here.take().epoch)
    made = here.save()
    here.engine.remove(JOB)
    jobs.forget(here.host.paths, JOB)
    tenure.give_up(here.host, JOB)
    return made.snapshot


@contextmanager
def _beside(here: Living, act: Callable[[], object]) -> Iterator[None]:
    """Do something meanwhile; if it fails, nobody waits for the job any more."""

    def acting() -> None:
        try:
            act()
        except BaseException:
            here.engine.end(JOB, 99)
            raise

    with ThreadPoolExecutor(1) as pool:
        acted = pool.submit(acting)
        yield
    acted.result()


def _goes_on(here: Living) -> bool:
    """Tell whether the job has come back."""
    record = jobs.load(here.host.paths, JOB)
    return record is not None and record.epoch == 2 and here.engine.find(JOB) is not None


def _is_stayed_with() -> bool:
    """Tell whether a signal would be the job's."""
    handlers = map(signal.getsignal, (signal.SIGTERM, signal.SIGINT))
    return all(getattr(it, "__name__", "") == "_pass_on" for it in handlers)


def _wish(**own: str) -> Wish:
    given = {f"--{name.replace('_', '-')}": value for name, value in own.items()}
    return wishes.wish(given, Address("/store"), None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--every nonsense", "--every: 'nonsense' is neither auto nor an interval like"),
        ("--every 10", "--every: '10' is neither auto"),
        ("--max-overhead 1", "--max-overhead: '1' is not a share like 1% or 0.5%"),
        ("--upload-limit fast", "--upload-limit: 'fast' is not a size like 512k, 10m or 1g"),
        ("--upload-limit -1", "--upload-limit: '-1' is not a size"),
        ("--keep-last none", "--keep-last: 'none' is not a number of snapshots"),
        ("--keep-hourly x", "--keep-hourly: 'x' is not a number of snapshots"),
        ("--keep-daily -1", "--keep-daily: '-1' is not a number of snapshots"),
        ("--keep-weekly 1.5", "--keep-weekly: '1.5' is not a number of snapshots"),
        ("--probe tcp:http", "--probe: 'http' is no port"),
        ("--probe log:(", "--probe: '(' is no pattern: "),
        ("--grace soon", "--grace: 'soon' is not a time like 10m, 90s or 1h30m"),
        ("--grace auto", "--grace: 'auto' is not a time like"),
        ("--scheduler cron", "--scheduler is 'cron', and none of auto, none, skypilot, slurm"),
        ("--scheduler slurm", "slurm has not started this process, or its SLURM_JOB_ID"),
        ("--name other", "--name is 'other' and --job 'train': one is enough"),
        ("--probe=", "--probe: it says nothing"),
        ("--resume-cmd=", "--resume-cmd: it says nothing"),
        ("--notice-command=", "--notice-command: it says nothing"),
        ("--notice-command ./absent", "--notice-command cannot be run: ./absent"),
        ("--probe=healthcheck --no-healthcheck", "--probe=healthcheck: the container has no "),
        ("--store=s3:/bucket", "--store=s3:/bucket: neither s3://BUCKET/PREFIX nor its like"),
        ("--store=gs:a/b", "--store=gs:a/b: neither s3://BUCKET/PREFIX nor its like"),
        ("--takeover=maybe", "--takeover: 'maybe' is neither true nor false"),
        ("--job ../train", "'../train' cannot be a job's name"),
        ("--job", "option --job needs a value"),
    ],
)
def test_senseless_wish_is_one_sentence(cli: Cli, here: Living, words: str, said: str) -> None:
    """Before anything is taken or made."""
    store = f"--store={here.address.url}"
    named = [] if "--job" in words else [f"--job={JOB}"]
    given = words.split()
    line = [*named, store, *given] if words != "--job" else [store, *given]
    ended = cli("run", *line, *([] if words == "--job" else [IMAGE]))
    assert (ended.status, ended.out) == (125, "")
    assert ended.err.startswith(f"spotrun: {said}")
    assert ended.err.endswith("\n  see `spotrun run --help`\n")
    assert lease.read(here.elsewhere, JOB) is None
    assert here.engine.jobs() == []


@pytest.mark.parametrize("option", ["--keep-hourly", "--every", "--upload-limit", "--grace"])
def test_zero_is_a_value_like_any_other(run: Run, here: Living, option: str) -> None:
    """Of these a senseless one; it is not as good as no option at all."""
    assert run("-d", option, "0").status == 125
    assert here.engine.jobs() == []


@pytest.mark.usefixtures("looked_after")
@pytest.mark.parametrize("job", ["0", "f", "false"])
def test_job_may_have_a_name_that_means_no_elsewhere(cli: Cli, here: Living, job: str) -> None:
    """It is looked after like any other one."""
    cli("run", "-d", f"--job={job}", f"--store={here.address.url}", IMAGE, *COMMAND)
    assert tenure.of(here.host.paths, job)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("--every 10m", "--every"),
        ("--fresh", "--fresh"),
        ("--takeover", "--takeover"),
        ("--grace=30s --fresh", "--grace"),
    ],
)
def test_wish_without_a_job_is_refused(cli: Cli, here: Living, words: str, option: str) -> None:
    """It would be lost on a container that nobody looks after."""
    ended = cli("run", "-d", *words.split(), IMAGE)
    assert (ended.status, ended.out) == (125, "")
    said = f"spotrun: {option} needs --job: it is for jobs that come back\n"
    assert ended.err.startswith(said)
    assert here.engine.jobs() == []


@pytest.mark.parametrize("scheduler", ["auto", "none"])
def test_name_is_the_users_where_no_scheduler_has_one(
    cli: Cli, run: Run, here: Living, scheduler: str
) -> None:
    """Who wants neither is asked for one."""
    ended = cli("run", "-d", f"--scheduler={scheduler}", IMAGE)
    assert ended.status == 125
    assert "no scheduler has started this process: name the job by --job" in ended.err
    assert run("-d", f"--scheduler={scheduler}").status == 0
    assert here.container.running


def test_command_line_of_create_makes_no_job_that_comes_back(cli: Cli, here: Living) -> None:
    """It is run, or it is none."""
    ended = cli("create", f"--job={JOB}", IMAGE)
    assert ended.status == 125
    assert "create makes no job that comes back: use run" in ended.err
    assert here.engine.jobs() == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4096", 4096),
        ("1b", 1),
        ("512k", 512 << 10),
        ("10m", 10 << 20),
        ("1.5M", 3 << 19),
        ("2G", 2 << 30),
        ("1gb", 1 << 30),
        (str(1 << 40), 1 << 40),
    ],
)
def test_size_is_read_as_docker_does(text: str, count: int) -> None:
    """In bytes."""
    assert wishes.size(text) == count


@pytest.mark.parametrize("text", ["", "k", "1kib", "1 k", "-1", "1e3", "1,5m", "1.m", "1t", "1m\n"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """The text is in the message."""
    with pytest.raises(ValueError, match="is not a size like"):
        wishes.size(text)


@pytest.mark.parametrize("text", ["0", "0k", "0.0"])
def test_limit_that_lets_nothing_through_is_refused(text: str) -> None:
    """Who says so wants the contrary of no limit."""
    with pytest.raises(UsageError):
        _wish(job=JOB, upload_limit=text)


def test_care_is_as_the_options_say() -> None:
    """Those that are not given are left to spotrun."""
    assert _wish(job=JOB).care == Care()
    found = _wish(
        job=JOB,
        every="1h30m",
        max_overhead="5%",
        upload_limit="10m",
        keep_last="3",
        keep_daily="7",
        probe="tcp:80",
        resume_cmd="./resume",
        notice_command="./going",
        grace="2m",
        fresh="",
        takeover="",
    )
    assert found.care == Care(
        every="1h30m",
        max_overhead=0.05,
        upload_limit=10 << 20,
        keep=Policy(3, 0, 7, 0),
        probe="tcp:80",
        resume_command="./resume",
        notice_command="./going",
        grace=120.0,
    )
    assert (found.job, found.fresh, found.by_force) == (JOB, True, True)


def test_job_begins_where_it_was_never_run(run: Run, here: Living) -> None:
    """The container has the job's name, and none of our words."""
    said = run("-d", "--every=10m", "-e", "A=1")
    assert (said.status, said.err) == (0, "")
    given = here.engine.arguments(here.container.id)
    assert [it for it in given if "every" in it or it.startswith("--job")] == []
    assert [it for it in given if it.startswith("--name")] == [f"--name={JOB}"]
    assert (here.record.care, here.record.epoch) == (Care(every="10m"), 1)
    assert here.record.store == here.address
    assert here.record.run.options == ("-d", "-e", "A=1", f"--name={JOB}")


def test_name_may_be_given_as_well(run: Run, here: Living) -> None:
    """If it is the job's."""
    assert run("-d", "--name", JOB).status == 0
    given = here.engine.arguments(here.container.id)
    assert [it for it in given if it.startswith("--name")] == [f"--name={JOB}"]


def test_begin_for_programs_is_as_in_the_golden_example(run: Run, here: Living) -> None:
    """So is what they read where it goes on."""
    said = run("-d", "--format=json")
    assert (said.status, said.envelope) == (0, _golden("run-job"))
    assert here.container.running


def test_job_goes_on_where_the_same_command_is_run(run: Run, here: Living, saved: str) -> None:
    """From its newest snapshot."""
    said = run("-d")
    assert (said.status, said.out) == (0, f"{here.container.id}\n")
    assert said.err == f"spotrun: job {JOB!r} goes on from {saved}\n"


def test_going_on_is_told_to_programs(run: Run, saved: str) -> None:
    """With the rung and the snapshot."""
    data = run("-d", "--format=json").envelope["data"]
    assert data == {"job": JOB, "rung": "live", "snapshot": saved, "exit_code": 0}


def test_job_that_starts_again_from_files_is_told(run: Run, here: Living, saved: str) -> None:
    """With what was in the way of more."""
    here.engine.failing = is_live
    said = run("-d", "--resume-cmd", "./resume --last")
    *reasons, last = said.err.splitlines()
    assert (said.status, len(reasons)) == (0, 1)
    assert last == f"spotrun: job {JOB!r} starts again with the files of {saved}"
    assert here.engine.arguments(here.container.id)[-2:] == ("-c", "./resume --last")


def test_job_that_is_looked_after_here_is_not_run_twice(run: Run, here: Living) -> None:
    """Who types the same again is told that it is here, and may stay with it."""
    run("-d")
    said = run("-d")
    assert (said.status, said.out) == (0, f"{here.container.id}\n")
    assert said.err == f"spotrun: job {JOB!r} is here, and looked after\n"
    assert len(here.engine.jobs()) == 1


def test_job_that_nobody_looks_after_any_more_is_taken_on(
    run: Run, here: Living, looked_after: threading.Event
) -> None:
    """Where it is; its options are those that are given now."""
    run("-d")
    before = here.container
    looked_after.set()
    until(lambda: not supervising.supervised(here.host.paths, JOB))
    looked_after.clear()
    said = run("-d", "--every=7m")
    assert (said.status, said.out) == (0, f"{before.id}\n")
    assert said.err == f"spotrun: job {JOB!r} is here, and looked after\n"
    assert (here.record.care, here.record.epoch) == (Care(every="7m"), 2)
    (adopted,) = [it for it in ledger.events(here.elsewhere, JOB) if it.kind == "adopted"]
    assert (adopted.epoch, adopted.reason) == (2, "its supervisor was killed")


def test_supervisor_of_a_job_that_is_attached_to_is_begun_again_when_it_was_killed(
    run: Run,
    here: Living,
    looked_after: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody else would hear that the host is about to go, and the lease would come to its end."""
    monkeypatch.setattr(supervising, "_LOOK", 0.01)
    run("-d")

    def kill() -> None:
        until(_is_stayed_with)
        looked_after.set()
        until(lambda: not supervising.supervised(here.host.paths, JOB))
        looked_after.clear()
        until(lambda: supervising.supervised(here.host.paths, JOB))
        here.engine.end(JOB, 5)

    with _beside(here, kill):
        assert run().status == 5
    assert here.record.epoch == 1


@pytest.mark.parametrize("options", [(), ("-d",)])
def test_job_that_has_come_to_its_end_is_not_run_again(
    run: Run, here: Living, options: tuple[str, ...]
) -> None:
    """Whoever waits for it learns that all is well."""
    here.take()
    tenure.give_up(here.host, JOB, ended=0)
    said = run(*options)
    assert (said.status, said.out) == (0, "")
    assert said.err == f"spotrun: job {JOB!r} has come to its end; --fresh begins it anew\n"
    assert here.engine.jobs() == []


def test_fresh_begins_it_anew(run: Run, here: Living, saved: str) -> None:
    """Nothing is told of what is stored, which stays."""
    said = run("-d", "--fresh")
    assert (said.status, said.err) == (0, "")
    assert here.container.running
    assert here.elsewhere.committed(JOB) == [saved]


def test_job_that_begins_attached_ends_with_its_own_status(run: Run) -> None:
    """As ever."""
    assert run(command=TALK).status == 7


def test_job_that_cannot_be_begun_is_no_job(run: Run, here: Living, cli: Cli) -> None:
    """What the engine says is the answer; nothing is left."""
    here.engine.command(["rmi", IMAGE])
    assert run("-d").status == 125
    assert jobs.load(here.host.paths, JOB) is None
    assert cli("ps", "-q").out == ""


@pytest.mark.usefixtures("saved")
def test_job_that_goes_on_attached_ends_with_its_own_status(run: Run, here: Living) -> None:
    """When it ends."""

    def end() -> None:
        until(lambda: _goes_on(here))
        here.engine.end(JOB, 5)

    with _beside(here, end):
        assert run().status == 5


@pytest.mark.usefixtures("saved")
def test_job_that_leaves_while_it_is_attached_to_ends_with_85(run: Run, here: Living) -> None:
    """With where it goes on."""
    said: list[Said] = []

    def leave() -> None:
        until(_is_stayed_with)
        here.save(leave_running=False)

    with _beside(here, leave):
        said.append(run())
    assert said[0].status == 85
    assert said[0].err.splitlines()[-1] == (
        f"spotrun: job {JOB!r} left this host, stored as {here.record.parent}:"
        f" `spotrun run --job {JOB} …` goes on with it"
    )


@pytest.fixture
def foretell(here: Living, monkeypatch: pytest.MonkeyPatch) -> Callable[[float, int], None]:
    """Give a function that says so as the supervisor does, and waits until that is heard."""
    monkeypatch.setattr(outlook, "_PAUSE", 0.01)
    looks: list[object] = []

    def noted(paths: Paths, job: str) -> Standing | None:
        looks.append(job)
        return read(paths, job)

    read = standing.read
    monkeypatch.setattr(standing, "read", noted)

    def say(seconds: float, basis: int = 3) -> None:
        forecast = Forecast(seconds, 5.0, basis)
        standing.write(here.host.paths, JOB, replace(_STANDING, forecast=forecast))
        seen = len(looks)
        until(lambda: len(looks) > seen + 1)

    return say


_FITS = "spotrun: a last snapshot fits in 120 s: yes, 41 s"
_FITS_NOT = "spotrun: a last snapshot fits in 120 s: no, 253 s; files only would, 10 s"


@pytest.mark.usefixtures("saved")
def test_snapshot_that_would_not_fit_is_told_while_one_stays(
    run: Run, here: Living, foretell: Callable[[float], None]
) -> None:
    """At once, when it fits again, and when it does not any more; each once."""

    def foretold() -> None:
        until(_is_stayed_with)
        for seconds in (200, 200, 30, 30, 200):
            foretell(seconds)
        here.engine.end(JOB, 0)

    with _beside(here, foretold):
        said = run()
    assert said.err.splitlines()[1:] == [_FITS_NOT, _FITS, _FITS_NOT]


def test_of_a_job_that_begins_nothing_is_foretold_but_what_is_known(
    run: Run, here: Living, foretell: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no snapshot yet, by which it could be told."""
    command = here.engine.command

    def commanded(words: Sequence[str], **how: Any) -> int:  # noqa: ANN401 # any argument
        for seconds, basis in ((200, 0), (30, 1), (200, 2)):
            foretell(seconds, basis)
        return command(words, **how)

    monkeypatch.setattr(here.engine, "command", commanded)
    assert run(command=TALK).err.splitlines() == [_FITS_NOT]


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize("options", ["-d", "-it"])
def test_snapshot_that_would_not_fit_is_told_before_one_goes_or_has_no_terminal(
    run: Run, options: str
) -> None:
    """By what the last snapshots took; the time of grace is what there is to be."""
    told = run(options, "--grace=1s").err.splitlines()
    assert len(told) == 2
    assert told[1].startswith("spotrun: a last snapshot fits in 1 s: no, ")
    again = run(options, "--grace=1s").err.splitlines()
    assert again[0] == f"spotrun: job {JOB!r} is here, and looked after"


def test_supervisor_is_believed_without_asking_the_store(run: Run, here: Living) -> None:
    """Which may be down, while a job that is here is only to be left alone."""
    run("-d")
    standing.write(here.host.paths, JOB, replace(_STANDING, forecast=Forecast(200.0, 5.0, 3)))
    here.network.passages.append(Passage(Fate.LOST))
    assert run("-d").err.splitlines()[1:] == [_FITS_NOT]
    assert here.network.passages


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(
    ("grace", "written"), [((), "SIGTERM\n"), (("--grace=45s",), "45s SIGTERM\n")]
)
def test_sigterm_to_an_attached_run_is_a_notice(
    run: Run, here: Living, grace: tuple[str, ...], written: str
) -> None:
    """The supervisor follows it, with the time that there is; until then this process stays."""
    notice = here.host.paths.notices / JOB

    def terminate() -> None:
        until(_is_stayed_with)
        os.kill(os.getpid(), signal.SIGTERM)
        until(notice.exists)
        here.save(leave_running=False)

    with _beside(here, terminate):
        assert run(*grace).status == 85
    assert notice.read_text() == written


@pytest.mark.usefixtures("saved")
def test_interrupt_is_for_the_job(run: Run, here: Living) -> None:
    """As Ctrl-C in an attached `docker run`."""

    def interrupt() -> None:
        until(_is_stayed_with)
        os.kill(os.getpid(), signal.SIGINT)

    with _beside(here, interrupt):
        assert run().status == 137
    assert ("kill", "--signal=INT", JOB) in here.engine.commands
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class _Lost:
    """Sends a signal from where Python takes no exception, and so loses what handlers raise."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self._number)


@pytest.mark.usefixtures("saved")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_just_as_the_job_has_come_is_the_jobs(
    run: Run, here: Living, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, *, lost: bool
) -> None:
    """It runs, and nobody else would tell it."""
    come = coming.come

    def come_and_hear(
        host: Host, wish: Wish, begin: Callable[[int], int], observer: Observer
    ) -> coming.Came:
        came = come(host, wish, begin, observer)
        if lost:
            _Lost(number)
        else:
            os.kill(os.getpid(), number)
        return came

    def leave() -> None:
        if number == signal.SIGTERM:
            until((here.host.paths.notices / JOB).exists)
            here.save(leave_running=False)

    monkeypatch.setattr(coming, "come", come_and_hear)
    with _beside(here, leave):
        assert run().status == (85 if number == signal.SIGTERM else 137)
    assert (("kill", "--signal=INT", JOB) in here.engine.commands) is (number == signal.SIGINT)


@pytest.mark.usefixtures("saved")
def test_terminal_of_a_job_that_goes_on_is_the_engines(run: Run, here: Living) -> None:
    """It knows raw mode and detach keys."""
    assert run("-it").status == 0
    assert here.engine.commands[-1] == ("attach", JOB)


def test_sigterm_while_another_host_is_waited_for_ends_with_85(run: Run, here: Living) -> None:
    """The job has not come here at all: whoever has it, or the next host, goes on with it."""
    lease.Lease(here.elsewhere, JOB, host="host-b").acquire()
    asked = threading.Event()
    read = here.elsewhere.backend.get_tagged

    def terminate() -> None:
        asked.wait(5)
        os.kill(os.getpid(), signal.SIGTERM)

    def noted(key: str) -> tuple[bytes, str]:
        if key.startswith(lease.PREFIX):
            threading.Timer(0.5, asked.set).start()
        return read(key)

    here.world.store.get_tagged = noted  # type: ignore[method-assign]
    with _beside(here, terminate):
        said = run("-d")
    assert said.status == 85
    assert said.err.splitlines()[0].startswith(f"spotrun: job {JOB!r} belongs to host host-b; ")
    assert "this host is about to go: start the job elsewhere" in said.err
    assert here.engine.jobs() == []


@pytest.mark.parametrize("elsewhere", [True, False])
def test_snapshots_that_would_go_with_the_host_are_told_of(
    cli: Cli, here: Living, *, elsewhere: bool
) -> None:
    """They are where no other host finds them."""
    store = [f"--store={here.address.url}"] if elsewhere else []
    with supervised(here):
        said = cli("run", "-d", f"--job={JOB}", *store, IMAGE, *COMMAND)
    assert said.status == 0
    assert ("its snapshots stay on this host" in said.err) is not elsewhere


@pytest.mark.parametrize("verb", ["run --job=train", "run --name=train"])
def test_sigterm_before_anything_is_done_is_85_for_jobs_that_come_back(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """A scheduler starts nothing again that ended otherwise."""

    def terminated(_: object) -> None:
        raise Terminated

    monkeypatch.setattr("spotrun.cli.launching.opened", terminated)
    said = cli(*verb.split(), IMAGE, *COMMAND)
    assert said.status == (85 if "--job" in verb else 130)


def test_slurm_is_told_that_a_job_has_left(
    cli: Cli, here: Living, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which names it, too, the same on every machine."""
    assert saved
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "big")
    here.runner.script["scontrol", "show", "config"] = Completed(0, "")
    here.runner.script["scontrol", "requeue", "17"] = Completed(1, stderr="no such job")
    lease.Lease(here.elsewhere, "slurm-big-17", host="host-b").acquire()

    def terminate() -> None:
        until(lambda: signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
        threading.Event().wait(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    with _beside(here, terminate):
        said = cli("run", "-d", "--scheduler=slurm", f"--store={here.address.url}", IMAGE)
    assert said.status == 85
    assert "job 'slurm-big-17' belongs to host host-b" in said.err
    assert "Slurm does not start slurm-big-17 again: no such job" in said.err


@pytest.mark.usefixtures("looked_after")
def test_notice_is_given_to_all_jobs_that_are_looked_after(
    cli: Cli, run: Run, here: Living
) -> None:
    """As in the golden example; nobody else is told."""
    run("-d")
    said = cli("notice", "--format=json")
    assert (said.status, said.envelope) == (0, _golden("notice"))
    assert (here.host.paths.notices / JOB).read_text() == "spotrun notice\n"
    assert [it.name for it in here.host.paths.notices.iterdir()] == [JOB]


def test_notice_says_how_long_the_host_will_be_there(cli: Cli, run: Run, here: Living) -> None:
    """If that is known; the names are printed."""
    run("-d")
    said = cli("notice", JOB, "--in", "2m30s")
    assert (said.status, said.out) == (0, f"{JOB}\n")
    assert (here.host.paths.notices / JOB).read_text() == "150s spotrun notice\n"


def test_job_that_comes_back_is_not_restarted(cli: Cli, run: Run, here: Living) -> None:
    """It would come back as it was before."""
    run("-d")
    said = cli("restart", JOB)
    assert (said.status, said.out) == (125, "")
    assert f"`spotrun run --fresh --job {JOB} …`, begin it anew" in said.err
    assert here.container.running


def test_job_that_nobody_looks_after_is_no_unknown_one(
    cli: Cli, run: Run, here: Living, looked_after: threading.Event
) -> None:
    """As one whose supervisors were killed, or that was started without."""
    run("-d")
    looked_after.set()
    until(lambda: not supervising.supervised(here.host.paths, JOB))
    for verb in ("status", "notice"):
        said = cli(verb, JOB)
        assert (said.status, said.out) == (125, "")
        assert said.err.startswith(f"spotrun: nobody looks after job {JOB!r} on this host\n")
    for verb in ("status", "notice"):
        said = cli(verb)
        assert said.status == 0
        assert said.err == (
            f"spotrun: nobody looks after job {JOB!r} on this host: its supervisor was killed;"
            f" `spotrun run --job {JOB} …` takes it on\n"
        )
    assert "running, untended" in cli("ps").out


def test_notice_is_given_to_nobody_if_one_job_is_not_here(cli: Cli, run: Run, here: Living) -> None:
    """Whoever typed it wrong has time for another try."""
    run("-d")
    said = cli("notice", JOB, "absent")
    assert (said.status, said.out) == (125, "")
    assert said.err.startswith("spotrun: no job named 'absent' on this host\n")
    assert not (here.host.paths.notices / JOB).exists()


def test_notice_where_no_job_is_looked_after_is_no_error(cli: Cli, here: Living) -> None:
    """A script that gives it need not know; a job without care is none of those."""
    here.begin()
    said = cli("notice")
    assert (said.status, said.out) == (0, "")
    assert said.err == "spotrun: no job is looked after on this host\n"
    assert cli("notice", "--format=json").envelope["data"] == {"told": []}


@pytest.mark.parametrize(
    "words", ["notice --in soon", "status --in 5", "notice --in -1s", "status --in auto"]
)
def test_senseless_time_is_one_sentence(cli: Cli, words: str) -> None:
    """Nobody is told anything."""
    said = cli(*words.split())
    assert (said.status, said.out) == (125, "")
    assert "is not a time like 10m, 90s or 1h30m" in said.err


def test_status_is_as_in_the_golden_example(cli: Cli, run: Run, here: Living) -> None:
    """What the supervisor has said, and whether a last snapshot fits."""
    run("-d")
    standing.write(here.host.paths, JOB, _STANDING)
    assert cli("status", "--format=json").envelope == _golden("status")
    assert cli("status", JOB, "--format=json").envelope == _golden("status")


@pytest.mark.parametrize(
    ("words", "row"),
    [
        ("status", "2026-12-01 10:10:00 fits in 120 s: yes, 41 s"),
        ("status --in 30s", "2026-12-01 10:10:00 fits in 30 s: no, 41 s; files only would, 10 s"),
    ],
)
def test_status_is_a_table_for_people(
    cli: Cli, run: Run, here: Living, words: str, row: str
) -> None:
    """With when it is saved next, and for what notice it is told."""
    run("-d")
    standing.write(here.host.paths, JOB, _STANDING)
    head, shown = cli(*words.split()).out.splitlines()
    assert head.split() == "JOB EPOCH SNAPSHOT NEXT (UTC) A LAST SNAPSHOT".split()
    assert shown.split() == [JOB, "1", *row.split()]


def test_status_of_a_job_that_is_just_being_saved_is_now(cli: Cli, run: Run, here: Living) -> None:
    """There is no other time to tell."""
    run("-d")
    standing.write(here.host.paths, JOB, replace(_STANDING, saving=True))
    row = cli("status").out.splitlines()[1]
    assert row.split()[:4] == [JOB, "1", "now", "fits"]


def test_status_says_that_a_job_is_being_brought_up(cli: Cli, run: Run) -> None:
    """Its supervisor has said nothing yet."""
    run("-d")
    (row,) = cli("status", "--format=json").envelope["data"]
    assert row == {"job": JOB, "standing": None, "fits": ""}
    shown = cli("status").out.splitlines()[1].split()
    assert shown == [JOB, "1", *"it is being brought up".split()]


def test_status_of_a_job_that_nobody_looks_after_is_an_error(cli: Cli, here: Living) -> None:
    """Of none, it is an empty table."""
    here.begin()
    assert cli("status", JOB).status == 125
    assert cli("status", "--format=json").envelope["data"] == []


def test_history_is_that_of_all_hosts(cli: Cli, here: Living) -> None:
    """In order, with what it comes to."""
    first = Event(at="2026-12-01T10:00:00+00:00", host="host-a", epoch=1, kind="started")
    events = [
        replace(first, rung="fresh"),
        replace(first, kind="notice", at="2026-12-01T11:00:00+00:00", reason="aws", deadline=120.0),
        replace(first, kind="stopped", at="2026-12-01T11:01:00+00:00", reason="aws: stop"),
        replace(first, kind="restored", at="2026-12-01T11:05:00+00:00", host="b", epoch=2),
    ]
    for event in events[::-1]:
        ledger.record(here.elsewhere, JOB, event)
    words = ("history", JOB, f"--store={here.address.url}")
    data = cli(*words, "--format=json").envelope["data"]
    assert [it["kind"] for it in data["events"]] == ["started", "notice", "stopped", "restored"]
    assert data["events"][1]["deadline"] == 120.0
    assert (data["summary"]["runs"], data["summary"]["hosts"]) == (2, ["host-a", "b"])
    assert data["summary"]["interruptions"] == 1
    shown = cli(*words)
    assert shown.err.startswith("spotrun: 2 runs on 2 hosts, 1 interruption, ")
    _, begun, notice, *_ = shown.out.splitlines()
    assert begun.split() == "2026-12-01 10:00:00 host-a 1 started fresh".split()
    assert notice.split() == "2026-12-01 11:00:00 host-a 1 notice 120 s left by aws".split()


def test_history_of_a_job_that_has_none_is_an_error(cli: Cli, here: Living) -> None:
    """In its store, which is named."""
    said = cli("history", JOB, f"--store={here.address.url}")
    assert (said.status, said.out) == (125, "")
    assert said.err.startswith(f"spotrun: no snapshot or history of job {JOB!r} in memory\n")


def test_history_that_is_damaged_is_shown_as_far_as_it_can_be_read(cli: Cli, here: Living) -> None:
    """How much is missing is told."""
    event = Event(at="2026-12-01T10:00:00+00:00", host="host-a", epoch=1, kind="started")
    ledger.record(here.elsewhere, JOB, event)
    here.world.store.put(f"{ledger.PREFIX}{JOB}/20261201T110000.000000Z-0000000000000000", b"{")
    said = cli("history", JOB, f"--store={here.address.url}")
    assert said.status == 0
    assert said.err.startswith("spotrun: 1 more cannot be read; see `spotrun verify`\n")


def test_history_of_a_job_is_found_where_its_snapshots_go(cli: Cli, run: Run) -> None:
    """Nobody has to name its store on a host that knows the job."""
    run("-d")
    events = cli("history", JOB, "--format=json").envelope["data"]["events"]
    assert [(it["kind"], it["rung"]) for it in events] == [("started", "fresh")]


def test_second_supervisor_says_nothing(cli: Cli, here: Living) -> None:
    """Somebody was faster."""
    with supervising.serving(here.host.paths, JOB):
        said = cli("supervise", JOB)
    assert (said.status, said.out, said.err) == (0, "", "")


def test_supervisor_of_a_job_that_has_gone_ends(cli: Cli, here: Living) -> None:
    """Its guard with it; both are processes of their own."""
    assert cli("supervise", JOB).status == 0
    assert not supervising.supervised(here.host.paths, JOB)


def test_files_only_snapshot_is_told_as_such(cli: Cli, here: Living) -> None:
    """`snapshots` shows which ones have processes."""
    here.begin()
    here.save(Kind.FILES, leave_running=False)
    rows = cli("snapshots", f"--store={here.address.url}", "--format=json").envelope["data"]
    assert [it["kind"] for it in rows] == ["files"]
    said = cli("exec", JOB, "work")
    assert f"stored as {here.record.parent}, its files only: " in said.err


def test_snapshots_are_not_removed_under_the_lease_of_another_host(cli: Cli, here: Living) -> None:
    """It may have nothing else to go on from; who knows better says so."""
    here.begin(epoch=here.take().epoch)
    made = here.save()
    here.engine.end(JOB, 7)
    tenure.give_up(here.host, JOB)
    taker = here.lose()
    said = cli("rm", "--snapshots", JOB)
    assert said.status == 125
    assert f"belongs to host {taker}, which may need its snapshots" in said.err
    assert here.elsewhere.committed(JOB) == [made.snapshot]
    assert here.engine.find(JOB)
    assert cli("rm", "-f", "--snapshots", JOB).status == 0
    assert here.elsewhere.committed(JOB) == []


def test_history_of_a_running_job_goes_with_its_snapshots(cli: Cli, here: Living) -> None:
    """To the last word, which its supervisor writes when the job has ended."""
    here.begin(epoch=here.take().epoch)
    here.save()
    end = Event(at="2026-12-01T10:00:00+00:00", host="host-a", epoch=1, kind="ended")

    def look_after_it() -> None:
        with supervising.serving(here.host.paths, JOB):
            until(lambda: here.engine.find(JOB) is None)
            time.sleep(0.3)
            ledger.record(here.elsewhere, JOB, end)

    with _beside(here, look_after_it):
        until(lambda: supervising.supervised(here.host.paths, JOB))
        assert cli("rm", "-f", "--snapshots", JOB).status == 0
    assert ledger.events(here.elsewhere, JOB) == []


@pytest.mark.usefixtures("looked_after")
def test_job_that_is_here_has_its_own_store(cli: Cli, run: Run, here: Living) -> None:
    """Who comes back to it need not name that again; another one's variable is for other jobs."""
    run("-d")
    for environment in ({}, {"SPOTRUN_STORE": "/elsewhere"}):
        with pytest.MonkeyPatch.context() as patched:
            for name, value in environment.items():
                patched.setenv(name, value)
            said = cli("run", "-d", f"--job={JOB}", IMAGE, *COMMAND)
        assert said.status == 0, said.err
        assert f"job {JOB!r} is here, and looked after" in said.err
    assert here.record.store == here.address


def test_notice_can_be_called_off(cli: Cli, run: Run, here: Living) -> None:
    """By who gave it, as long as nothing has come of it."""
    run("-d")
    place = here.host.paths.notices / JOB
    assert cli("notice", "--in=1h").out == f"{JOB}\n"
    assert place.exists()
    for _ in range(2):  # there may be none
        assert cli("notice", "--off", JOB).out == f"{JOB}\n"
        assert not place.exists()


def test_status_tells_of_the_notice_that_stands(cli: Cli, run: Run, here: Living) -> None:
    """There may be days until it is followed."""
    run("-d")
    standing.write(here.host.paths, JOB, replace(_STANDING, leaving="spotrun notice"))
    assert cli("status").out.splitlines()[1].endswith("; a notice stands: spotrun notice")


def test_status_tells_that_a_snapshot_has_failed(cli: Cli, run: Run, here: Living) -> None:
    """What was foretold from earlier ones may be worth nothing then."""
    run("-d")
    standing.write(here.host.paths, JOB, replace(_STANDING, failed=True))
    log = here.host.paths.supervisor_log(JOB)
    said = cli("status").out.splitlines()[1]
    assert said.endswith(f"yes, 41 s; but the last one that was tried has failed: {log}")


def test_attached_run_ends_when_its_supervisor_has(
    run: Run, here: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then its lease is given up, and the next command line need not wait for it."""
    monkeypatch.setattr(living_module, "_GLANCE", 0.3)
    assert run(command=TALK).status == 7
    assert not supervising.supervised(here.host.paths, JOB)


@pytest.mark.usefixtures("saved")
def test_attached_run_shows_what_a_job_writes_since_it_is_here(
    run: Run, here: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host's output was shown there, also while its lease was waited for."""
    parts: list[Excerpt] = []

    def logs(_: str, *, follow: bool, part: Excerpt) -> Iterator[LogLine]:
        assert follow
        parts.append(part)
        here.engine.end(JOB, 0)
        return iter(())

    monkeypatch.setattr(here.engine, "logs", logs)
    taken, take = [], tenure.take

    def taking(*args: Any, **others: Any) -> tenure.Tenure:  # noqa: ANN401 # whatever it takes
        found = take(*args, **others)
        taken.append(here.host.clock.now())
        return found

    monkeypatch.setattr(tenure, "take", taking)
    assert run().status == 0
    (part,), (then,) = parts, taken
    assert part.since
    assert part.since > then


@pytest.mark.usefixtures("looked_after")
def test_other_command_than_that_of_a_job_that_is_here_is_told_of(cli: Cli, here: Living) -> None:
    """Two jobs must not have one name, nor two users one job."""
    words = ("run", "-d", f"--job={JOB}", f"--store={here.address.url}")
    cli(*words, IMAGE, *COMMAND)
    assert "it runs" not in cli(*words, IMAGE, *COMMAND).err
    said = cli(*words, IMAGE, "other", "a b")
    assert said.status == 0
    assert f"spotrun: it runs {IMAGE} work hard, and goes on with that\n" in said.err
