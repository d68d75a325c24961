"""The rest of a container's day: which words are jobs, and what is asked of the engine."""

from copy import copy
from dataclasses import replace
from typing import Any, NoReturn

import msgspec
import pytest

from spotrun.cli import opened
from spotrun.cli.passed import VERBS, parted
from spotrun.images.errors import EngineError
from spotrun.runtime import engines, jobs, locks, unsent
from tests.cli.conftest import TALK, Cli
from tests.fakes.host import FakeHost
from tests.fakes.snapshots import manifest, publish

_RUNS = ("sleep", "1000")


@pytest.fixture
def image(fake: FakeHost) -> str:
    """Give an image that is here."""
    return fake.engine.add_image("localhost/busybox:1", b"layer").name


@pytest.fixture
def running(cli: Cli, image: str) -> str:
    """Give a job that runs."""
    assert cli("run", "-d", "--name", "job", image, *_RUNS).status == 0
    return "job"


def _record(fake: FakeHost, name: str, **changes: Any) -> jobs.Job:  # noqa: ANN401 # any field
    """Have a record without a container."""
    record = jobs.Job(name, manifest().run, fake.host.own_store)
    jobs.save(fake.host.paths, replace(record, **changes))
    return record


@pytest.fixture
def elsewhere(fake: FakeHost) -> None:
    """Have jobs that are `stored` and `moved`."""
    made = publish(fake.host.store(), job="stored")
    _record(fake, "stored", place=jobs.Place.STORED, parent=made.snapshot)
    _record(fake, "moved", place=jobs.Place.MOVED, target="ssh://root@b")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("stop -t 5 a b", (["-t", "5"], ["a", "b"], [])),
        ("stop -t5 a --time=3", (["-t5", "--time=3"], ["a"], [])),
        ("stop a -t 5", (["-t", "5"], ["a"], [])),
        ("kill -s TERM a", (["-s", "TERM"], ["a"], [])),
        ("kill --signal TERM -- a", (["--signal", "TERM"], ["a"], [])),
        ("inspect -f {{.Id}} -s a", (["-f", "{{.Id}}", "-s"], ["a"], [])),
        ("stats --no-stream --format json a", (["--no-stream", "--format", "json"], ["a"], [])),
        ("attach --detach-keys ctrl-x a", (["--detach-keys", "ctrl-x"], ["a"], [])),
        ("exec a ls -l -- x", ([], ["a"], ["ls", "-l", "--", "x"])),
        ("exec -ite A=1 a sh", (["-ite", "A=1"], ["a"], ["sh"])),
        ("exec -eA=1 -u 0 -w /x a sh", (["-eA=1", "-u", "0", "-w", "/x"], ["a"], ["sh"])),
        ("exec -i=true -e=A a sh", (["-i=true", "-e=A"], ["a"], ["sh"])),
        ("exec --env A=1 --tty a a --help", (["--env", "A=1", "--tty"], ["a"], ["a", "--help"])),
    ],
)
def test_jobs_are_found_among_the_words(
    words: str, found: tuple[list[str], list[str], list[str]]
) -> None:
    """As pflag reads them, which both engines use."""
    verb, *rest = words.split()
    line = parted(verb, rest)
    assert (list(line.options), list(line.jobs), list(line.behind)) == found


def test_jobs_of_one_engine_go_into_one_command(
    cli: Cli, fake: FakeHost, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where new jobs go to the other one, and each job is looked up by itself."""
    for name in ("a", "b"):
        cli("run", "-d", "--name", name, image, *_RUNS)
    other = copy(fake.engine)
    other.name = "docker"
    monkeypatch.setattr(opened, "this_host", lambda: replace(fake.host, engine=other))
    monkeypatch.setattr(engines, "engine", lambda *_: copy(fake.engine))
    assert cli("stop", "a", "b").status == 0
    assert fake.engine.commands[-1] == ("stop", "a", "b")


@pytest.mark.parametrize(
    "words",
    [
        "start job",
        "attach --no-stdin job",
        "exec -e A=1 job ls --format json",
        "stop -t 5 job",
        "kill -s TERM job",
        "restart job",
        "pause job",
        "unpause job",
        "inspect --format json job",
        "stats --no-stream job",
    ],
)
def test_command_is_passed_on_unchanged(cli: Cli, fake: FakeHost, running: str, words: str) -> None:
    """With all its options, also those that are called as spotrun's own."""
    assert running == "job"
    said = cli(*words.split())
    assert (said.status, said.out, said.err) == (0, "", "")
    assert fake.engine.commands[-1] == tuple(words.split())


@pytest.mark.parametrize("verb", VERBS)
def test_container_that_is_no_job_is_left_alone(
    cli: Cli, fake: FakeHost, image: str, verb: str
) -> None:
    """So is a job that is unknown; nothing is asked of the engine."""
    fake.engine.create(["--name=foreign", image])
    for name in ("foreign", "absent"):
        said = cli(verb, name, "x")
        assert (said.status, said.out) == (125, "")
        assert said.err.startswith(f"spotrun: no job named {name!r} on this host\n")
    assert fake.engine.commands == []


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("verb", ["stop", "exec", "inspect", "checkpoint"])
def test_job_that_is_elsewhere_is_told_where(cli: Cli, verb: str) -> None:
    """With what to do next."""
    stored, moved = cli(verb, "stored"), cli(verb, "moved")
    assert (stored.status, moved.status) == (125, 125)
    assert stored.err.startswith("spotrun: job 'stored' is stored as 2026")
    assert stored.err.endswith(": `spotrun restore stored` goes on with it\n")
    assert moved.err == (
        "spotrun: job 'moved' has moved to ssh://root@b\n  see `spotrun ps` there\n"
    )


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("verb", ["logs", "restore"])
def test_what_has_moved_away_is_sought_there(cli: Cli, verb: str) -> None:
    """Its output and its snapshots are not here any more."""
    assert cli(verb, "moved").err.startswith("spotrun: job 'moved' has moved to ssh://root@b\n")


@pytest.mark.parametrize("verb", [name for name in VERBS if name != "stats"])
def test_command_without_a_job_is_refused(cli: Cli, verb: str) -> None:
    """`--all` and `--latest` may mean containers that are no jobs."""
    said = cli(verb, "--all")
    assert said.status == 125
    assert said.err.startswith(f"spotrun: no job was given: spotrun {verb} [OPTIONS] JOB")


def test_stats_without_a_job_are_those_of_all_that_run(
    cli: Cli, fake: FakeHost, running: str, image: str
) -> None:
    """And of no other containers."""
    cli("run", "--name", "ended", image, *TALK)
    fake.engine.start(fake.engine.create(["--name=foreign", image, *_RUNS]))
    assert cli("stats", "--no-stream").status == 0
    assert fake.engine.commands[-1] == ("stats", "--no-stream", running)
    cli("rm", "-f", running)
    assert cli("stats").err == "spotrun: no job runs on this host\n"


@pytest.mark.parametrize("verb", ["stop", "kill", "restart", "pause", "unpause", "start", "rm"])
def test_command_waits_for_nobody_who_works_on_the_job(
    cli: Cli, fake: FakeHost, running: str, verb: str
) -> None:
    """It says who that is, since when and at what."""
    host = fake.host
    before = list(fake.engine.commands)
    with locks.hold(host.paths.locks, running, "checkpoint", host.clock.now(), wait=False):
        said = cli(verb, running)
    assert said.status == 125
    assert said.err.startswith(f"spotrun: job {running!r} is busy: pid ")
    assert "at 'checkpoint' since" in said.err
    assert fake.engine.commands == before


@pytest.mark.parametrize("verb", ["attach job", "start -a job"])
def test_who_is_attached_to_a_job_that_leaves_ends_with_85(
    cli: Cli, fake: FakeHost, running: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `run` does, and is told where it is."""

    def taken_away(*_: object, **__: object) -> int:
        _record(fake, running, place=jobs.Place.MOVED, target="ssh://root@b")
        return 137

    monkeypatch.setattr(fake.engine.__class__, "command", taken_away)
    said = cli(*verb.split())
    assert (said.status, said.err) == (85, "spotrun: job 'job' has moved to ssh://root@b\n")


def test_waiting_shows_exit_codes(cli: Cli, fake: FakeHost, image: str) -> None:
    """One a line; 85 stands for a job that left meanwhile."""
    cli("run", "--name", "ended", image, *TALK)
    cli("run", "--name", "left", image, *TALK)
    assert cli("wait", "ended", "left").out == "7\n7\n"
    _record(fake, "left", place=jobs.Place.STORED, parent="20261201T110000Z-00000b")
    said = cli("wait", "ended", "left", "--format", "json")
    assert said.status == 0
    assert said.envelope["data"] == [
        {"job": "ended", "exit_code": 7},
        {"job": "left", "exit_code": 85},
    ]


@pytest.mark.usefixtures("elsewhere")
def test_job_that_has_left_already_ended_with_85(cli: Cli) -> None:
    """Whether one began to wait before it left or after makes no difference."""
    said = cli("wait", "stored", "moved")
    assert (said.status, said.out) == (0, "85\n85\n")


def test_nobody_is_waited_for_if_one_job_is_not_here(cli: Cli, running: str) -> None:
    """The exit codes of the others are not lost on the way to an error."""
    said = cli("wait", running, "absent")
    assert (said.status, said.out) == (125, "")
    assert "'absent'" in said.err


def test_created_job_is_there_and_does_not_run(cli: Cli, fake: FakeHost, image: str) -> None:
    """Its id is printed, and `start` starts it."""
    said = cli("create", "--name", "job", image, *_RUNS)
    found = fake.engine.find("job")
    assert found is not None
    assert (said.status, said.out, found.status) == (0, f"{found.id}\n", "created")
    assert cli("start", "job").status == 0
    assert cli("ps", "-q").out == "job\n"
    made = cli("create", "--format", "json", "--name", "other", image, *_RUNS).envelope
    assert made["data"]["job"] == "other"


def test_jobs_are_listed_although_their_engine_does_not_answer(
    cli: Cli, fake: FakeHost, running: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be stopped, and the jobs of the other one go on."""
    _record(fake, "stored", place=jobs.Place.STORED, parent="20261201T100000Z-00000a")

    def silent() -> NoReturn:
        raise EngineError(engine="podman", reason="connection refused")

    monkeypatch.setattr(fake.engine, "jobs", silent)
    rows = cli("ps", "--format", "json").envelope["data"]
    assert {row["job"]: row["status"] for row in rows} == {
        running: "unknown: podman does not answer",
        "stored": "stored",
    }


def test_what_the_engine_says_of_a_failed_run_is_in_the_envelope(cli: Cli, fake: FakeHost) -> None:
    """Nothing is written beside it, and the job is not remembered."""
    said = cli("run", "-d", "--format", "json", "--name", "job", "localhost/absent:1")
    assert (said.status, said.err) == (125, "")
    (error,) = said.envelope["errors"]
    assert error["code"] in {"EngineError", "NotHere"}
    assert "localhost/absent:1" in error["message"]
    assert jobs.load(fake.host.paths, "job") is None


@pytest.mark.parametrize("json", [(), ("--format", "json")])
def test_name_that_is_taken_does_not_change_the_job_that_has_it(
    cli: Cli, fake: FakeHost, running: str, image: str, json: tuple[str, ...]
) -> None:
    """Its record stays as it was."""
    before = jobs.load(fake.host.paths, running)
    assert cli("run", "-d", "--name", running, *json, image, "other").status == 125
    assert jobs.load(fake.host.paths, running) == before


def test_removed_job_is_forgotten_and_its_snapshots_are_kept(
    cli: Cli, fake: FakeHost, running: str
) -> None:
    """A running one only with -f, as ever."""
    store = fake.host.store()
    made = publish(store, job=running)
    fake.host.paths.criu_config(running).write_text("")
    refused = cli("rm", running)
    assert (refused.status, refused.out) == (125, "")
    assert "as it is running" in refused.err
    assert jobs.load(fake.host.paths, running) is not None
    said = cli("rm", "-f", "-v", running)
    assert (said.status, said.out, said.err) == (0, "job\n", "")
    assert fake.engine.commands[-1][:3] == ("rm", "--force", "--volumes")
    assert jobs.load(fake.host.paths, running) is None
    assert not fake.host.paths.criu_config(running).exists()
    assert store.has(running, made.snapshot)


@pytest.mark.usefixtures("elsewhere")
def test_removed_job_takes_its_snapshots_along_on_request(cli: Cli, fake: FakeHost) -> None:
    """Also one that waits to be sent; those of other jobs stay."""
    store = fake.host.store()
    other, kept = publish(store, job="other"), publish(store, job="stored-2")
    waiting = unsent.Record("stored", "20261201T120000Z-00000c", fake.host.own_store)
    path = fake.host.paths.unsent / f"{waiting.snapshot}.json"
    path.write_bytes(msgspec.json.encode(waiting))
    assert cli("rm", "--snapshots", "stored").status == 0
    assert store.ids() == [("other", other.snapshot), ("stored-2", kept.snapshot)]
    assert not path.exists()


def test_what_is_left_of_a_job_that_was_removed_is_removed_where_it_is(
    cli: Cli, fake: FakeHost
) -> None:
    """Its host does not know any more where that was."""
    store = fake.host.store()
    other, _ = publish(store, job="other"), publish(store, job="gone")
    words = ("rm", "--snapshots", f"--store={fake.host.own_store.url}")
    assert cli("rm", "--snapshots", "gone").status == 125
    assert cli(*words, "gone").status == 0
    assert store.ids() == [("other", other.snapshot)]
    assert cli(*words, "gone").status == 125


@pytest.mark.usefixtures("elsewhere")
def test_snapshots_of_a_job_that_runs_elsewhere_are_not_removed(cli: Cli, fake: FakeHost) -> None:
    """They may be all that it can be restored from; to forget the job is no harm."""
    assert cli("rm", "-f", "--snapshots", "moved").status == 125
    assert jobs.load(fake.host.paths, "moved") is not None
    assert cli("rm", "moved").status == 0
    assert jobs.load(fake.host.paths, "moved") is None


def test_missing_job_is_no_error_with_force(cli: Cli, running: str) -> None:
    """The others are removed in either case."""
    assert cli("rm", "absent").status == 125
    said = cli("rm", "-f", "absent", running, "--format", "json")
    assert (said.status, said.envelope["data"]) == (0, {"removed": [running]})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--tail 1", (b"err\n",)),
        ("-n all", (b"out\n", b"err\n")),
        ("-n -1", (b"out\n", b"err\n")),
        ("--since 10m", (b"out\n", b"err\n")),
        ("--since 2999-01-01", ()),
        ("--since 32503680000", ()),
        ("--since 2999-01-01T00:00:00.5Z --until 1h2m3.5s", ()),
        ("-t --tail 1", (b"2026-12-01T10:00:00Z err\n",)),
    ],
)
def test_part_of_the_output_can_be_asked_for(
    cli: Cli, image: str, words: str, said: tuple[bytes, ...]
) -> None:
    """In the words of `docker logs`."""
    cli("run", "--name", "job", image, *TALK)
    shown = cli("logs", *words.split(), "job")
    assert (shown.status, f"{shown.out}{shown.err}") == (0, b"".join(said).decode())


@pytest.mark.parametrize("words", ["--since yesterday", "--until 1x", "--tail few"])
def test_part_that_makes_no_sense_is_refused(cli: Cli, words: str) -> None:
    """Before anything is read."""
    said = cli("logs", "job", *words.split())
    assert (said.status, said.out) == (125, "")
    assert f"'{words.split()[1]}' is n" in said.err
