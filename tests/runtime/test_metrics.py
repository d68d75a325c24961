"""Prometheus reads what a host tells of its jobs, and it is what `status` says."""

import http.client
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from spotrun.images.durable import write_json
from spotrun.images.errors import EngineError, HostUnfit, SpotrunError
from spotrun.images.lease import boot_time
from spotrun.runtime import fence, jobs, metrics, standing, supervising
from spotrun.runtime.forecast import Forecast
from spotrun.runtime.jobs import Place
from spotrun.runtime.metrics import Metric, Sample
from spotrun.runtime.standing import Standing
from spotrun.runtime.unsent import Record
from tests.fakes.host import FakeHost, fake_host
from tests.fakes.snapshots import manifest

_JOB = "train"
_LINE = re.compile(
    r"# HELP [a-z_]+ [^\n]+|# TYPE [a-z_]+ gauge"
    r'|[a-z_]+(\{[a-z]+="([^"\\\n]|\\[\\n"])*"(,[a-z]+="([^"\\\n]|\\[\\n"])*")*\})?'
    r" (-?[0-9.]+(e[+-]?[0-9]+)?)"
)
"""What the format has, as far as it is used."""
_STANDING = Standing(
    pid=7,
    since="2026-12-01T10:00:00+00:00",
    container="c0ffee",
    saving=True,
    next="2026-12-01T10:20:00+00:00",
    interval=600.5,
    forecast=Forecast(seconds=40.0, files_seconds=10.0, basis=3),
    saved="2026-12-01T09:59:00+00:00",
    leaving=None,
)


@pytest.fixture
def fake(tmp_path: Path) -> FakeHost:
    """Give a host with a job that runs."""
    made = fake_host(tmp_path)
    image = made.engine.add_image("localhost/busybox:1", b"layer").name
    words = [f"--name={_JOB}", f"--label=io.spotrun.job={_JOB}", image, "sleep", "60"]
    made.engine.start(made.engine.create(words))
    _record(made, _JOB, epoch=2, parent="20261201T100000Z-00000a")
    return made


def _record(fake: FakeHost, name: str, **changes: Any) -> None:  # noqa: ANN401 # any field
    made = jobs.Job(name, manifest().run, fake.host.own_store)
    jobs.save(fake.host.paths, replace(made, **changes))


@contextmanager
def _supervised(fake: FakeHost, said: Standing | None = _STANDING) -> Iterator[None]:
    """Look after the job, and say that."""
    write_json(fake.host.paths.leases / f"{_JOB}.json", {})
    if said:
        standing.write(fake.host.paths, _JOB, said)
    with supervising.serving(fake.host.paths, _JOB):
        yield


def _parsed(text: str) -> dict[tuple[str, ...], float]:
    """Return values by name and labels, from what the official parser reads."""
    families = list(text_string_to_metric_families(text))
    assert all(it.type == "gauge" and it.documentation for it in families)
    assert len({it.name for it in families}) == len(families)
    samples = [one for it in families for one in it.samples]
    found = {(it.name, *it.labels.values()): it.value for it in samples}
    assert len(found) == len(samples)
    return found


def _told(fake: FakeHost) -> dict[tuple[str, ...], float]:
    text = metrics.text(metrics.collect(fake.host))
    assert text.endswith("\n")
    assert [it for it in text.splitlines() if not _LINE.fullmatch(it)] == []
    return {
        (name.removeprefix("spotrun_"), *rest): it for (name, *rest), it in _parsed(text).items()
    }


def test_job_that_is_looked_after_is_told_of(fake: FakeHost) -> None:
    """With what its supervisor says; the seconds are those that `status` shows."""
    fence.put_off(fake.host.paths, _JOB, boot_time() + 60)
    with _supervised(fake):
        found = _told(fake)
    assert 55 < found.pop(("job_lease_seconds", _JOB)) <= 58
    assert found.pop(("job_snapshot_age_seconds", _JOB)) == 61
    found.pop(next(it for it in found if it[0] == "build_info"))
    assert found == {
        ("job_up", _JOB): 1,
        ("job_supervised", _JOB): 1,
        ("job_epoch", _JOB): 2,
        ("job_snapshot_timestamp_seconds", _JOB): (
            datetime(2026, 12, 1, 9, 59, tzinfo=UTC).timestamp()
        ),
        ("job_snapshot_interval_seconds", _JOB): 600.5,
        ("job_next_snapshot_timestamp_seconds", _JOB): (
            datetime(2026, 12, 1, 10, 20, tzinfo=UTC).timestamp()
        ),
        ("job_saving", _JOB): 1,
        ("job_leaving", _JOB): 0,
        ("job_last_snapshot_seconds", _JOB, "live"): 53,
        ("job_last_snapshot_seconds", _JOB, "files"): 16,
        ("job_forecast_snapshots", _JOB): 3,
        ("job_fits", _JOB, "30"): 0,
        ("job_fits", _JOB, "120"): 1,
        ("job_unsent_snapshots", _JOB): 0,
    }


def test_snapshot_of_another_life_does_not_count(fake: FakeHost) -> None:
    """The job has begun anew since."""
    with _supervised(fake, replace(_STANDING, saved=None)):
        assert ("job_snapshot_age_seconds", _JOB) not in _told(fake)


def test_notice_that_stands_is_told(fake: FakeHost) -> None:
    """Whatever it says."""
    with _supervised(fake, replace(_STANDING, leaving="terminate", saving=False)):
        found = _told(fake)
    assert (found["job_leaving", _JOB], found["job_saving", _JOB]) == (1, 0)


def test_job_that_nobody_looks_after_is_told_from_one_that_is(fake: FakeHost) -> None:
    """What a dead supervisor has said does not count any more."""
    standing.write(fake.host.paths, _JOB, _STANDING)
    found = _told(fake)
    assert found["job_supervised", _JOB] == 0
    assert found["job_snapshot_age_seconds", _JOB] == 1
    assert ("job_fits", _JOB, "120") not in found
    with _supervised(fake, None):
        standing.forget(fake.host.paths, _JOB)
        assert _told(fake)["job_supervised", _JOB] == 1


def test_job_that_has_ended_is_down(fake: FakeHost) -> None:
    """As long as there is a container that shows it."""
    fake.engine.command(["kill", _JOB])
    assert _told(fake)["job_up", _JOB] == 0


def test_job_whose_container_has_gone_is_told_of_no_more(fake: FakeHost) -> None:
    """With `--rm` its end is no failure; its record stays for `rm --snapshots`."""
    found = fake.engine.find(_JOB)
    assert found
    fake.engine.remove(found.id)
    assert [it for it in _told(fake) if _JOB in it] == []


def test_engine_that_does_not_answer_says_neither(
    fake: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else is told."""

    def silent() -> None:
        raise EngineError(engine="podman", reason="it does not answer")

    monkeypatch.setattr(fake.engine, "jobs", silent)
    found = _told(fake)
    assert ("job_up", _JOB) not in found
    assert found["job_epoch", _JOB] == 2


def test_jobs_that_are_elsewhere_are_not_told_of(fake: FakeHost) -> None:
    """But snapshots of theirs that wait here are."""
    _record(fake, "stored", place=Place.STORED, parent="20261201T100000Z-00000a")
    _record(fake, "moved", place=Place.MOVED, target="ssh://root@b")
    record = Record("stored", "20261201T100000Z-00000a", fake.host.own_store)
    write_json(fake.host.paths.unsent / "one.json", msgspec.to_builtins(record))
    found = _told(fake)
    others = {it for it in found if it[1] in {"stored", "moved"}}
    assert others == {("job_unsent_snapshots", "stored")}
    assert found["job_unsent_snapshots", "stored"] == 1


def test_job_whose_lease_is_over_has_no_time_left(fake: FakeHost) -> None:
    """Nor less than none; one without a lease is not told to have any."""
    assert ("job_lease_seconds", _JOB) not in _told(fake)
    fence.close(fake.host.paths, _JOB)
    assert _told(fake)["job_lease_seconds", _JOB] == 0


def test_age_is_not_below_zero(fake: FakeHost) -> None:
    """If the host that made the snapshot has a clock that is ahead."""
    ahead = f"{datetime(2026, 12, 1, 10, tzinfo=UTC) + timedelta(days=1):%Y%m%dT%H%M%SZ}-00000a"
    _record(fake, _JOB, parent=ahead)
    assert _told(fake)["job_snapshot_age_seconds", _JOB] == 0


def test_host_without_jobs_is_there_nevertheless(tmp_path: Path) -> None:
    """With the version of spotrun."""
    ((name, version),) = _told(fake_host(tmp_path))
    assert (name, bool(version)) == ("build_info", True)


@given(st.text(), st.text(min_size=1), st.floats(allow_nan=False, allow_infinity=False))
def test_any_text_is_read_back(label: str, about: str, value: float) -> None:
    """In labels and in what is said of a metric."""
    text = metrics.text([Metric("spotrun_x", about, [Sample({"job": label}, value)])])
    assert text.count("\n") == 3
    (family,) = text_string_to_metric_families(text)
    assert [(it.labels, it.value) for it in family.samples] == [({"job": label}, value)]


@contextmanager
def _serving(told: Any, host: str = "127.0.0.1") -> Iterator[http.client.HTTPConnection]:  # noqa: ANN401 # a function
    with metrics.server((host, 0), told) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        client = http.client.HTTPConnection(host, server.server_address[1], timeout=10)
        try:
            yield client
        finally:
            client.close()
            server.shutdown()
            thread.join()


def _answer(client: http.client.HTTPConnection, method: str, path: str) -> tuple[int, str, str]:
    client.request(method, path)
    answer = client.getresponse()
    return answer.status, answer.headers["Content-Type"], answer.read().decode()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_metrics_are_served(host: str) -> None:
    """In the content type of the format, new ones every time."""
    numbers = iter(range(9))
    with _serving(lambda: f"spotrun_x {next(numbers)}\n", host) as client:
        assert _answer(client, "GET", "/metrics") == (200, metrics.CONTENT, "spotrun_x 0\n")
        assert _answer(client, "GET", "/metrics?a=b") == (200, metrics.CONTENT, "spotrun_x 1\n")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/metrics/../../etc/passwd", 404),
        ("POST", "/metrics", 501),
        ("PUT", "/metrics", 501),
        ("DELETE", "/metrics", 501),
    ],
)
def test_nothing_else_is_served(method: str, path: str, status: int) -> None:
    """Nor is anything told to who asks for it."""
    with _serving(lambda: "secret") as client:
        found, _, body = _answer(client, method, path)
    assert found == status
    assert "secret" not in body


def test_error_is_told_to_who_asks() -> None:
    """And the server goes on."""
    answers = iter([SpotrunError(message="<b>broken</b>"), None])

    def told() -> str:
        error = next(answers)
        if error:
            raise error
        return "spotrun_x 1\n"

    with _serving(told) as client:
        status, _, body = _answer(client, "GET", "/metrics")
        assert (status, "&lt;b&gt;broken" in body) == (500, True)
        client.close()
        assert _answer(client, "GET", "/metrics")[0] == 200


def test_place_that_is_taken_is_refused() -> None:
    """As is one that this host does not have."""
    with metrics.server(("127.0.0.1", 0), str) as server:
        taken = server.server_address[1]
        with pytest.raises(HostUnfit, match=r"cannot be listened on: .*in use"):
            metrics.server(("127.0.0.1", taken), str)
    with pytest.raises(HostUnfit, match=r"nowhere\.invalid:0 cannot be listened on"):
        metrics.server(("nowhere.invalid", 0), str)
