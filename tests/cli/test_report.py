"""`history`, `report` and `metrics` on the command line."""

import http.client
import os
import signal
import socket
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from spotrun.images import ledger
from spotrun.images.ledger import Event
from spotrun.images.seal import seal_document
from spotrun.runtime import jobs, metrics
from tests.cli.conftest import Cli
from tests.fakes.host import FakeHost
from tests.fakes.snapshots import NOW, manifest

_SNAPSHOT = "20261201T100000Z-00000a"


def _event(
    kind: ledger.Kind,
    seconds: float,
    *,
    epoch: int = 1,
    rung: ledger.Rung | None = None,
) -> Event:
    return Event(
        at=(NOW + timedelta(seconds=seconds)).isoformat(),
        host=f"host-{epoch}",
        epoch=epoch,
        kind=kind,
        snapshot=None if kind == "started" else _SNAPSHOT,
        rung=rung,
    )


@pytest.fixture
def job(fake: FakeHost) -> str:
    """Give a job that ran for two hours on one host, and went on from there on another."""
    life = [
        _event("started", 0),
        _event("snapshot", 7200),
        _event("restored", 9000, epoch=2, rung="live"),
    ]
    for it in life:
        ledger.record(fake.host.store(), "train", it)
    return "train"


def test_history_tells_what_a_job_costs(cli: Cli, job: str) -> None:
    """At the price of an hour; without one it says nothing of money."""
    said = cli("history", job, "--price", "1.5")
    assert said.status == 0
    money = "at $1.50 an hour that is $3.00, and $3.00 need not be paid again\n"
    assert said.err.endswith(f"7200 s of work need not be done again; {money}")
    assert "$" not in cli("history", job).err


def test_history_of_programs_has_all_figures(cli: Cli, job: str) -> None:
    """Money is null without a price."""
    found = cli("history", job, "--price", "0.5", "--format", "json").envelope["data"]
    assert found.keys() == {"events", "summary", "cost"}
    assert found["cost"] == {"per_hour": 0.5, "paid": 1.0, "spared": 1.0}
    assert cli("history", job, "--format", "json").envelope["data"]["cost"] is None


@pytest.mark.parametrize("price", ["-1", "nan", "inf", "cheap"])
@pytest.mark.parametrize("verb", ["history", "report"])
def test_what_is_no_price_is_refused(cli: Cli, job: str, verb: str, price: str) -> None:
    """In one sentence."""
    said = cli(verb, job, f"--price={price}")
    assert (said.status, said.out) == (125, "")
    assert said.err.startswith("spotrun: ")


def test_page_is_written_to_a_file(cli: Cli, job: str, tmp_path: Path) -> None:
    """Which others may read, in the place of what was there; nothing else is left."""
    file = tmp_path / "pages" / "report.html"
    file.parent.mkdir()
    file.write_text("an older one")
    said = cli("report", job, "-o", str(file), "--price", "2")
    assert (said.status, said.out) == (0, "")
    assert said.err == f"spotrun: the page about job 'train' is {file}\n"
    page = file.read_text()
    assert page.startswith("<!doctype html>\n")
    assert page.endswith("</html>\n")
    assert "$4.00" in page
    assert file.stat().st_mode & 0o777 == 0o644
    assert list(file.parent.iterdir()) == [file]


def test_link_to_a_page_stays_a_link(cli: Cli, job: str, tmp_path: Path) -> None:
    """What it names is written."""
    link, file = tmp_path / "link.html", tmp_path / "report.html"
    link.symlink_to(file)
    assert cli("report", job, "-o", str(link)).status == 0
    assert link.is_symlink()
    assert file.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("place", ["", "/dev/null", "/dev/stdout", "/nowhere/report.html"])
@pytest.mark.parametrize("verb", ["report train", "metrics"])
def test_file_takes_no_other_things_place(
    cli: Cli, job: str, tmp_path: Path, verb: str, place: str
) -> None:
    """A folder's, a device's; nor is a folder made for it."""
    assert job
    said = cli(*verb.split(), "-o", place or str(tmp_path))
    assert said.status == 125
    assert "is no file" in said.err or "is no folder" in said.err
    assert Path("/dev/null").is_char_device()


def test_page_goes_to_stdout(cli: Cli, job: str, tmp_path: Path) -> None:
    """The same as to a file, but for the time."""
    said = cli("report", job)
    assert (said.status, said.err) == (0, "")
    cli("report", job, "-o", str(tmp_path / "page"))
    lines = (tmp_path / "page").read_text().splitlines()
    assert [it for it in said.out.splitlines() if "This page is of" not in it] == [
        it for it in lines if "This page is of" not in it
    ]


def test_page_is_nothing_for_a_terminal(
    cli: Cli, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to do instead."""
    monkeypatch.setattr(sys.stdout.__class__, "isatty", lambda _: True)
    said = cli("report", job)
    assert (said.status, said.out) == (125, "")
    assert "use -o FILE, or redirect it" in said.err


def test_programs_get_the_page_and_its_figures(cli: Cli, job: str, tmp_path: Path) -> None:
    """Or where it is."""
    found = cli("report", job, "--format", "json").envelope["data"]
    assert found.keys() == {"job", "file", "page", "summary", "cost"}
    assert (found["file"], found["page"][:9]) == (None, "<!doctype")
    file = tmp_path / "report.html"
    found = cli("report", job, "-o", str(file), "--format", "json").envelope["data"]
    assert (found["file"], found["page"]) == (str(file), None)


@pytest.mark.parametrize("verb", ["history", "report"])
def test_job_without_a_history_is_named(cli: Cli, verb: str) -> None:
    """Nothing is written."""
    said = cli(verb, "trian")
    assert (said.status, said.out) == (125, "")
    assert "history of job 'trian'" in said.err


@pytest.mark.parametrize("verb", ["history", "report"])
def test_damaged_events_are_told(cli: Cli, fake: FakeHost, job: str, verb: str) -> None:
    """As is one of before the first day that there is; the others are shown."""
    store, key = fake.host.store(), f"{ledger.PREFIX}{job}/early"
    early = msgspec.to_builtins(_event("started", 0)) | {"at": "0001-01-01T00:00:00+23:59"}
    store.backend.put(key, seal_document(store.seal, key, msgspec.json.encode(early)))
    store.backend.put(f"{ledger.PREFIX}{job}/broken", b"broken")
    said = cli(verb, job)
    assert said.status == 0
    assert said.err.startswith("spotrun: 2 more cannot be read; see `spotrun verify`\n")


@pytest.fixture
def here(fake: FakeHost) -> None:
    """Have a job on this host."""
    jobs.save(fake.host.paths, jobs.Job("train", manifest().run, fake.host.own_store, epoch=3))
    image = fake.engine.add_image("localhost/work:1", b"layer").name
    fake.engine.create(["--name=train", "--label=io.spotrun.job=train", image, "work"])


@pytest.mark.usefixtures("here")
def test_metrics_are_printed_or_written(cli: Cli, tmp_path: Path) -> None:
    """The same; a file is for all to read, since node_exporter is not root."""
    said = cli("metrics")
    assert (said.status, said.err) == (0, "")
    assert 'spotrun_job_epoch{job="train"} 3\n' in said.out
    file = tmp_path / "spotrun.prom"
    assert cli("metrics", "-o", str(file)).out == ""
    assert file.read_text() == said.out
    assert file.stat().st_mode & 0o777 == 0o644


@pytest.mark.usefixtures("here")
def test_metrics_of_programs_are_a_list(cli: Cli) -> None:
    """Of names, each with its values."""
    found = cli("metrics", "--format", "json").envelope["data"]
    epoch = next(it for it in found if it["name"] == "spotrun_job_epoch")
    assert epoch["samples"] == [{"labels": {"job": "train"}, "value": 3.0}]


@pytest.mark.parametrize("place", ["9109", ":9109", "localhost:", "::1:9109", "a:65536", "a:b"])
def test_place_to_listen_at_is_an_address_and_a_port(cli: Cli, place: str) -> None:
    """Nothing is listened on without being asked for."""
    said = cli("metrics", f"--listen={place}")
    assert said.status == 125
    assert "is not like 127.0.0.1:9109 or [::1]:9109" in said.err


def test_metrics_go_one_way(cli: Cli, tmp_path: Path) -> None:
    """To a file or over HTTP."""
    said = cli("metrics", "-o", str(tmp_path / "a"), "--listen", "127.0.0.1:0")
    assert said.status == 125
    assert "take one" in said.err


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_metrics_are_served_until_a_signal_comes(cli: Cli, number: signal.Signals) -> None:
    """Which is no error."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    answers = []

    def ask() -> None:
        for _ in range(100):
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            try:
                client.request("GET", "/metrics")
                answer = client.getresponse()
                answers.append((answer.headers["Content-Type"], answer.read().decode()))
                break
            except ConnectionError:
                time.sleep(0.05)
            finally:
                client.close()
        os.kill(os.getpid(), number)

    asking = threading.Thread(target=ask)
    asking.start()
    said = cli("metrics", "--listen", f"127.0.0.1:{port}")
    asking.join()
    assert said.status == 0
    assert said.err == f"spotrun: http://127.0.0.1:{port}/metrics\n"
    ((kind, text),) = answers
    assert kind == metrics.CONTENT
    assert 'spotrun_job_epoch{job="train"} 3\n' in text
