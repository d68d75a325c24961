"""What programs read is a contract: exact key sets, by golden examples."""

import json
from pathlib import Path
from typing import Any

import pytest

from spotrun.cli.output import Output
from spotrun.images.errors import CaptureFailed
from spotrun.images.logfile import LogLine
from spotrun.images.manifest import PhaseRecord
from spotrun.runtime import jobs
from spotrun.runtime.settle import Outcome
from tests.cli.conftest import TALK, Cli
from tests.fakes.host import FakeHost
from tests.fakes.snapshots import manifest, publish

_GOLDEN = Path(__file__).parent / "golden"


def _golden(name: str) -> Any:  # noqa: ANN401 # any JSON
    return json.loads((_GOLDEN / f"{name}.json").read_bytes())


@pytest.fixture
def places(fake: FakeHost) -> None:
    """Have a job in each state that `ps` tells apart, and two snapshots."""
    image = fake.engine.add_image("localhost/busybox:1", b"layer").name
    command = {"ended": TALK, "runs": ("sleep", "60")}
    for name, words in command.items():
        made = fake.engine.create(
            [f"--name={name}", f"--label=io.spotrun.job={name}", image, *words]
        )
        fake.engine.start(made)
    store = fake.host.store()
    first = publish(store, job="stored")
    later = {"snapshot": "20261201T110000Z-00000b", "created": "2026-12-01T11:00:00.000+00:00"}
    second = publish(store, job="stored", epoch=1, parent=first.snapshot, **later)
    moved = jobs.Place.MOVED
    for changes in (
        {"name": "ended"},
        {"name": "runs", "epoch": 2, "parent": second.snapshot},
        {"name": "stored", "place": jobs.Place.STORED, "epoch": 1, "parent": second.snapshot},
        {"name": "gone", "place": moved, "target": "ssh://root@b", "parent": first.snapshot},
    ):
        fields: dict[str, Any] = {"run": manifest().run, "store": fake.host.own_store, **changes}
        jobs.save(fake.host.paths, jobs.Job(**fields))


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize(
    ("golden", "words"),
    [
        ("ps", "ps --all --format json"),
        ("snapshots", "snapshots --format=json"),
        ("snapshots", "snapshots stored --format json"),
    ],
)
def test_listing_is_as_in_the_golden_example(cli: Cli, golden: str, words: str) -> None:
    """Every key of every row, and nothing on stderr."""
    said = cli(*words.split())
    assert said.envelope == _golden(golden)
    assert (said.status, said.err) == (0, "")


@pytest.mark.usefixtures("places")
def test_jobs_that_have_moved_away_are_listed_only_on_request(cli: Cli) -> None:
    """The others always are."""
    rows = cli("ps", "--format", "json").envelope["data"]
    assert rows == [row for row in _golden("ps")["data"] if row["job"] != "gone"]


def test_findings_of_a_fit_host_are_as_in_the_golden_example(cli: Cli) -> None:
    """Kernel and cgroups are this machine's."""
    said = cli("doctor", "--format", "json")
    envelope = said.envelope
    for finding in envelope["data"]:
        if finding["name"] in {"kernel", "cgroups"}:
            finding["found"] = "…"
    assert envelope == _golden("doctor")
    assert said.status == 0


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize(
    ("golden", "words"),
    [
        ("wait", "wait ended --format json"),
        ("rm", "rm ended stored --format=json"),
        ("error-stored", "checkpoint stored --format json"),
        ("error-moved", "logs gone --format json"),
    ],
)
def test_end_of_a_job_is_as_in_the_golden_example(cli: Cli, golden: str, words: str) -> None:
    """Or where it is now."""
    said = cli(*words.split())
    assert said.envelope == _golden(golden)
    assert (said.status, said.err) == (125 if "error" in golden else 0, "")


@pytest.mark.parametrize("verb", ["create", "run -d"])
def test_image_that_is_not_here_is_as_in_the_golden_example(cli: Cli, verb: str) -> None:
    """The engine's own words are in the document, and not on stderr."""
    words = [*verb.split(), "--name", "job", "--format", "json", "localhost/absent:1"]
    said = cli(*words)
    assert {**said.envelope, "command": "run"} == _golden("error-image")
    assert (said.status, said.err) == (125, "")


def test_start_of_a_job_is_as_in_the_golden_example(cli: Cli, fake: FakeHost) -> None:
    """The container's id is what `run -d` prints."""
    image = fake.engine.add_image("localhost/busybox:1", b"layer").name
    said = cli("run", "--format", "json", "-d", "--name", "job", image, "sleep", "60")
    assert said.envelope == _golden("run")
    assert said.status == 0


@pytest.mark.parametrize(
    ("golden", "words"),
    [
        ("error", "checkpoint absent --format json"),
        ("error-snapshot", "restore absent --format=json"),
        ("usage", "ps --bogus --format json"),
        ("usage-verb", "frobnicate --format json"),
        ("usage-missing", "migrate job --format json"),
        ("usage-run", "run --format json --name job"),
    ],
)
def test_error_is_as_in_the_golden_example(
    cli: Cli, fake: FakeHost, golden: str, words: str
) -> None:
    """Also where the command line cannot be parsed; stderr stays empty."""
    said = cli(*words.split())
    shown = said.out.replace(str(fake.host.paths.state), "/var/lib/spotrun")
    assert json.loads(shown) == _golden(golden)
    assert (said.status, said.err) == (125, "")


def test_unfit_host_is_an_error_with_its_findings(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program learns from the status, a person from the list."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    said = cli("doctor", "--format", "json")
    assert (said.status, said.envelope["status"], said.envelope["errors"]) == (125, "error", [])
    assert said.envelope["data"][0]["fix"] == "run spotrun as root, e.g. with sudo"


def test_every_envelope_has_the_same_keys() -> None:
    """Whatever the verb and however it ended."""
    keys = ["spotrun_result_version", "command", "status", "data", "errors"]
    events = {"events", "log"}
    golden = [it for it in _GOLDEN.glob("*.json") if it.stem not in events]
    assert len(golden) > 5
    assert {tuple(json.loads(it.read_bytes())) for it in golden} == {tuple(keys)}


def test_progress_is_as_in_the_golden_example(capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON document a line, on stderr."""
    output = Output(json=True)
    output.begin("freeze")
    output.end(PhaseRecord("freeze", 0.25, 4096))
    output.note("job 'train' is saved")
    output.settled(Outcome("train", "migrate", finished=True))
    output.settled(Outcome("train", "migrate", finished=False))
    output.settled(Outcome("train", "migrate", finished=False, error=ValueError("why")))
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in err.splitlines()] == _golden("events")
    assert out == ""


def test_log_pieces_are_as_in_the_golden_example(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is a document on stdout; bytes that are no text are replaced."""
    output = Output(json=True)
    output.log(LogLine("stdout", b"out\n"))
    output.log(LogLine("stderr", b"\xff"))
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == _golden("log")
    assert err == ""


def test_what_could_not_be_taken_back_is_in_the_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The raw log's path is in its own key."""
    error = CaptureFailed(job="train", reason="no", log=Path("/raw.log"))
    error.add_note("taking it back: x")
    Output(json=True).error("checkpoint", error)
    (told,) = json.loads(capsys.readouterr().out)["errors"]
    assert told == {
        "code": "CaptureFailed",
        "message": "job 'train' was not saved and goes on: no; taking it back: x",
        "hint": None,
        "log": "/raw.log",
    }
