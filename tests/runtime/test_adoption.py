"""Containers that others started are taken on as jobs, once, and only if they can be."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spotrun.images.errors import EngineError, UsageError
from spotrun.images.runspec import RunSpec
from spotrun.runtime import jobs, locks
from spotrun.runtime.adoption import Adopted, adopt
from spotrun.runtime.host import Host
from spotrun.runtime.jobs import Place
from tests.fakes.host import FakeHost, fake_host

_SPEC = RunSpec(options=("--env=A=1",), image="localhost/busybox:1", command=("sleep", "60"))


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """Give a host with one engine, which has an image."""
    monkeypatch.setattr("spotrun.runtime.adoption.program", lambda _: None)
    made = fake_host(tmp_path)
    made.engine.add_image(_SPEC.image, b"layer")
    return made


def _start(fake: FakeHost, name: str) -> str:
    """Start a container as the engine's own user does."""
    made = fake.engine.create([f"--name={name}", _SPEC.image, *_SPEC.command])
    fake.engine.start(made)
    return made


def _note(fake: FakeHost, container: str, job: str = "train") -> None:
    """Leave a note as a hook does."""
    folder = fake.host.paths.notes
    folder.mkdir(exist_ok=True)
    state = {"id": container, "annotations": {"io.spotrun.job": job}}
    (folder / f"note.{len(list(folder.iterdir()))}.json").write_text(json.dumps(state))


def _adopt(fake: FakeHost) -> list[Adopted]:
    return adopt(fake.host, lambda _host, _container: _SPEC)


def _noted(fake: FakeHost) -> int:
    return len(list(fake.host.paths.notes.iterdir()))


def _record(fake: FakeHost, **changes: object) -> jobs.Job:
    record = jobs.Job(name="train", run=_SPEC, store=fake.host.own_store, engine="podman")
    record = replace(record, engine=fake.host.engine.name, **changes)  # type: ignore[arg-type]
    jobs.save(fake.host.paths, record)
    return record


def test_noted_container_becomes_a_job(fake: FakeHost) -> None:
    """Its record has the command line, the engine, and the id by which it is found."""
    container = _start(fake, "web")
    _note(fake, container)
    assert _adopt(fake) == [Adopted("train", container)]
    assert jobs.load(fake.host.paths, "train") == _record(fake, container=container)
    assert _noted(fake) == 0
    assert _adopt(fake) == []


def test_container_that_is_known_is_not_taken_on(fake: FakeHost) -> None:
    """Hooks note spotrun's own containers, too, and those that an engine starts again."""
    own = _start(fake, "train")
    record = _record(fake)
    _note(fake, own)
    other = _start(fake, "web")
    _note(fake, other, "other")
    _adopt(fake)
    _note(fake, other, "other")
    assert _adopt(fake) == []
    assert jobs.load(fake.host.paths, "train") == record
    assert _noted(fake) == 0


def test_container_that_is_gone_is_forgotten(fake: FakeHost) -> None:
    """It ended before anybody looked, and was removed."""
    container = _start(fake, "web")
    _note(fake, container)
    fake.engine.remove(container)
    assert _adopt(fake) == []
    assert jobs.load(fake.host.paths, "train") is None
    assert _noted(fake) == 0


def test_next_container_of_a_unit_takes_the_place_of_the_last(fake: FakeHost) -> None:
    """Its service was restarted; the job's snapshots stay its own."""
    first = _start(fake, "web")
    _note(fake, first)
    _adopt(fake)
    record = _record(fake, container=first, parent="20261201T100000Z-00000a", epoch=2)
    fake.engine.remove(first)
    second = _start(fake, "web")
    _note(fake, second)
    assert _adopt(fake) == [Adopted("train", second)]
    assert jobs.load(fake.host.paths, "train") == replace(record, container=second)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"place": Place.STORED, "parent": "S"}, "stored as S: `spotrun restore train` goes on"),
        ({"place": Place.MOVED, "target": "ssh://b"}, "it has moved to ssh://b"),
        ({}, "there is another one of that name"),
        ({"container": "first"}, "there is another one of that name"),
    ],
    ids=["stored", "moved", "of that name", "noted before"],
)
def test_second_container_of_a_job_is_refused(
    fake: FakeHost, record: dict[str, object], reason: str
) -> None:
    """Its record is as it was, so that the job's past is in no doubt."""
    if "container" in record:
        record = {"container": _start(fake, "first")}
    before = _record(fake, **record)
    container = _start(fake, "web")
    _note(fake, container)
    (refused,) = _adopt(fake)
    assert (refused.job, refused.container) == ("train", container)
    assert reason in refused.refusal
    assert jobs.load(fake.host.paths, "train") == before
    assert _noted(fake) == 0


def test_container_that_cannot_be_a_job_is_told_once(fake: FakeHost) -> None:
    """Its name, or the runtime it was started by, does not do."""

    def refuse(_host: Host, _container: str) -> RunSpec:
        raise UsageError(message="was started by crun")

    container = _start(fake, "web")
    _note(fake, container, "a/b")
    _note(fake, container)
    refusals = [it.refusal for it in adopt(fake.host, refuse)]
    assert ["'a/b' cannot be a job's name" in refusals[0], refusals[1]] == [
        True,
        "was started by crun",
    ]
    assert _noted(fake) == 0
    assert jobs.all_records(fake.host.paths) == []


def test_note_waits_while_the_job_is_busy(fake: FakeHost) -> None:
    """Or while the engine does not answer."""

    def fail(_host: Host, _container: str) -> RunSpec:
        raise EngineError(engine="podman", reason="it does not answer")

    container = _start(fake, "web")
    _note(fake, container)
    now = fake.host.clock.now()
    with locks.hold(fake.host.paths.locks, "train", "restore", now, wait=False):
        assert _adopt(fake) == []
    assert adopt(fake.host, fail) == []
    assert _noted(fake) == 1
    assert _adopt(fake) == [Adopted("train", container)]
