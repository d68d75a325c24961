"""Of a snapshot, only the files go on: they are all there before the command starts anew."""

import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spotrun.images.care import Care
from spotrun.images.errors import JobBusy, NameTaken, NotRestorable, RestoreFailed
from spotrun.images.manifest import Kind, Manifest, Tree
from spotrun.images.store import Opened, Tell, file_sizes
from spotrun.runtime import jobs, locks, restore, restoring, settle, transaction
from spotrun.runtime.engine import RESTORE_ANNOTATION
from tests.fakes.living import COMMAND, IMAGE, JOB, Living
from tests.fakes.snapshots import NOW

_TREES = {
    "/": (None, {"work/state": "changed"}),
    "/data": ("data", {"checkpoint": "epoch 7", "sub/more": "x"}),
    "/anonymous": (None, {"scratch": "y"}),
    "/dev/shm": (None, {"shared": "z"}),
}
"""Where trees of a snapshot belong, the volumes that they are of, and files in them."""
_RESUME = "./resume --last && echo $A"
_OPTIONS = ("--volume=data:/data", "--volume=/anonymous", "--env=A=1")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nobody look long whether a job is well."""
    monkeypatch.setattr(restoring, "_PROBE_SECONDS", 0.0)


@pytest.fixture
def saved(here: Living, tmp_path: Path) -> Manifest:
    """Give a live snapshot of a job with volumes, which is not here any more."""
    here.begin(*_OPTIONS)
    made = here.save()
    here.engine.remove(JOB)
    here.engine.remove_volume("data")
    jobs.forget(here.host.paths, JOB)
    staged = tmp_path / "staged"
    here.store.fetch(made, staged)
    trees = []
    for number, (destination, (volume, files)) in enumerate(_TREES.items()):
        source = tmp_path / f"tree-{number}"
        for name, content in files.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(content)
        archive = f"trees/{number}.tar"
        argv = ["tar", "--create", f"--file={staged / archive}", f"--directory={source}", "."]
        subprocess.run(argv, check=True)
        kind = "rootfs" if destination == "/" else "mount"
        trees.append(Tree(kind, archive, destination, volume, identity=None))
    described = replace(made, snapshot="20261201T110000Z-00000b", trees=tuple(trees))
    push, sizes = here.store.begin("test", JOB, "host"), file_sizes(staged)
    stored = push.store(staged, sizes, threads=None, tell=None)
    described = replace(described, files=sizes, content=stored)
    push.publish(described)
    push.end()
    return described


def _go_on(here: Living, saved: Manifest, **changes: Any) -> None:  # noqa: ANN401 # any argument
    wanted: dict[str, Any] = {"kind": Kind.FILES, "observer": here.listener, **changes}
    restore.go_on(here.host, JOB, saved, here.address, **wanted)


def _read(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in file_sizes(folder)}


def _place(here: Living, destination: str) -> Path:
    return next(it.source for it in here.container.mounts if it.destination == destination)


def test_changed_files_and_new_volumes_are_as_they_were(here: Living, saved: Manifest) -> None:
    """The log and all else that the job knows by its files goes on."""
    _go_on(here, saved)
    assert _read(here.container.upper) == _TREES["/"][1]
    assert _read(_place(here, "/data")) == _TREES["/data"][1]
    assert _read(_place(here, "/anonymous")) == _TREES["/anonymous"][1]


def test_shared_memory_is_that_of_processes(here: Living, saved: Manifest) -> None:
    """It has gone with them."""
    _go_on(here, saved)
    found = {name for folder in here.host.paths.state.parent.rglob("*") for name in [folder.name]}
    assert "checkpoint" in found
    assert "shared" not in found


def test_what_the_image_has_in_a_volume_gives_way(
    here: Living, saved: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job may have removed some of it."""
    create = here.engine.create

    def filled(arguments: list[str]) -> str:
        container = create(arguments)
        made = here.engine.find(container)
        assert made
        for mount in made.mounts:
            (mount.source / "image").mkdir()
            (mount.source / "image" / "file").touch()
            (mount.source / "link").symlink_to("image")
        return container

    monkeypatch.setattr(here.engine, "create", filled)
    _go_on(here, saved)
    assert _read(_place(here, "/data")) == _TREES["/data"][1]


def test_volume_that_is_here_is_left_as_it_is(here: Living, saved: Manifest) -> None:
    """At the source it is the same one; another one is a reason against it."""
    here.engine.remove(here.engine.create(["--volume=data:/data", IMAGE]))
    with pytest.raises(NotRestorable, match="another volume 'data' is here"):
        _go_on(here, saved)
    same = replace(saved.trees[1], identity=here.engine.volume("data"))
    _go_on(here, replace(saved, trees=(saved.trees[0], same, *saved.trees[2:])))
    assert _read(_place(here, "/data")) == {}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (None, [IMAGE, *COMMAND]),
        (_RESUME, ["--entrypoint=sh", IMAGE, "-c", _RESUME]),
    ],
)
def test_command_starts_anew_or_another_one_does(
    here: Living, saved: Manifest, command: str | None, words: list[str]
) -> None:
    """By a shell; with the options and variables of the first run."""
    _go_on(here, saved, care=Care(resume_command=command))
    made = here.engine.arguments(here.container.id)
    assert list(made[-len(words) :]) == words
    assert {"--volume=data:/data", "--env=HOME=/root"} <= {*made}
    assert not any(RESTORE_ANNOTATION in it and "annotation" in it for it in made)


def test_resume_command_is_not_for_a_job_that_goes_on_alive(here: Living, saved: Manifest) -> None:
    """It has what it was started with."""
    _go_on(here, saved, kind=Kind.LIVE, care=Care(resume_command="./resume"))
    assert here.engine.arguments(here.container.id)[-2:] == COMMAND


def test_record_says_what_the_job_has_gone_on_from(here: Living, saved: Manifest) -> None:
    """And how it is looked after, at which epoch."""
    care = Care(every="7m")
    _go_on(here, saved, care=care, epoch=5)
    record = here.record
    assert (record.parent, record.epoch, record.care) == (saved.snapshot, 5, care)
    assert here.container.running


def test_memory_is_not_fetched(here: Living, saved: Manifest) -> None:
    """And nothing that was fetched stays behind."""
    (memory,) = [it for it in saved.files if it.startswith("criu/")]
    fetched: list[str] = []
    opened = here.store.opened

    def noted(manifest: Manifest) -> Opened:
        found = opened(manifest)

        def fetch(folder: Path, paths: Iterable[str], tell: Tell | None = None) -> int:
            fetched.extend(paths)
            return found.fetch(folder, fetched, tell)

        return cast("Opened", SimpleNamespace(fetch=fetch))

    here.store.opened = noted  # type: ignore[method-assign]
    _go_on(here, saved)
    assert sorted(fetched) == sorted(saved.files.keys() - {memory})
    assert list(here.host.paths.scratch.iterdir()) == []
    assert list(here.host.paths.memory.iterdir()) == []


@pytest.mark.parametrize("fault", ["start", "probe"])
def test_nothing_is_left_of_an_attempt_that_failed(
    here: Living, saved: Manifest, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the container nor volumes that it was given."""
    if fault == "start":
        here.engine.failing = lambda _: True
    monkeypatch.setattr("spotrun.runtime.probe._PATIENCE", 0.0)
    with pytest.raises(RestoreFailed):
        _go_on(here, saved, care=Care(probe="log:ready"))
    assert here.engine.find(JOB) is None
    assert here.engine.volume("data") is None
    assert jobs.load(here.host.paths, JOB) is None
    assert transaction.entries(here.host) == []


@pytest.mark.parametrize(("exit_code", "in_place", "makes_way"), [
    (0, True, True), (0, False, False), (1, True, True), (1, False, True),
])  # fmt: skip
def test_container_that_has_ended_makes_way(
    here: Living, saved: Manifest, exit_code: int, *, in_place: bool, makes_way: bool
) -> None:
    """One that has come to a good end only where its user wants the job to go on in its place."""
    here.begin()
    here.engine.end(JOB, exit_code)
    old = here.container
    if makes_way:
        _go_on(here, saved, in_place=in_place)
        assert here.engine.find(old.id) is None
    else:
        with pytest.raises(NameTaken):
            _go_on(here, saved, in_place=in_place)
        assert here.container == old


def test_container_that_made_way_is_put_back_if_nothing_came_of_it(
    here: Living, saved: Manifest
) -> None:
    """Under its own name."""
    here.begin()
    here.engine.end(JOB, 1)
    old = here.container
    here.engine.failing = lambda _: True
    with pytest.raises(RestoreFailed):
        _go_on(here, saved)
    assert here.container == old


def test_running_job_is_not_replaced(here: Living, saved: Manifest) -> None:
    """Not even in place."""
    here.begin()
    with pytest.raises(NameTaken):
        _go_on(here, saved, in_place=True)
    assert here.status == "running"


def test_one_at_a_time_works_on_the_job(here: Living, saved: Manifest) -> None:
    """As with every restore."""
    with (
        locks.hold(here.host.paths.locks, JOB, "push", NOW, wait=False),
        pytest.raises(JobBusy),
    ):
        _go_on(here, saved)


def test_attempt_that_was_killed_is_taken_back_by_the_next_spotrun(
    here: Living, saved: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction like all others: its verb is known to who settles."""

    class Killed(BaseException):
        """This process is no more."""

    def die(container: str) -> None:
        raise Killed(container)

    with monkeypatch.context() as patch:
        for name in ("start", "remove"):
            patch.setattr(here.engine, name, die)
        with pytest.raises(Killed):
            _go_on(here, saved)
    (left,) = transaction.entries(here.host)
    assert left.verb == "restore of files"
    (outcome,) = settle.settle(here.host, here.listener)
    assert (outcome.finished, outcome.error) == (False, None)
    assert here.engine.find(JOB) is None
