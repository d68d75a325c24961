"""The shim is runc for every call but one: the real file, and a runc that writes down its calls."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spotrun.images import trees
from spotrun.images.process import SystemRunner
from spotrun.runtime import engine, launcher, shim
from spotrun.runtime.paths import Paths

_SHIM = Path(launcher.__file__).resolve().with_name("shim.py")
_GLOBALS = ["--root", "/run/docker/runtime-runc/moby", "--log", "/run/log.json",
            "--log-format", "json", "--systemd-cgroup"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Called:
    """What came of one call of the shim."""

    status: int
    runc: list[list[str]]
    """The calls of runc that it led to."""


class Bench:
    """A folder with a scripted runc, a bundle and a plan."""

    def __init__(self, folder: Path) -> None:
        """Make the runc and the folders."""
        self.folder = folder
        self.paths = Paths(state=folder / "state", run=folder / "run")
        self.paths.prepare()
        self.bundle = folder / "bundle"
        self.volume = folder / "volume"
        self.images = folder / "images"
        for made in (self.bundle, self.volume, self.images, folder / "bin"):
            made.mkdir()
        self.plan = self.paths.plans / "attempt.json"
        self._calls = folder / "calls"
        self.runc(0)
        self.specify()

    def runc(self, status: int) -> None:
        """Let runc write down its arguments and end with a status."""
        runc = self.folder / "bin" / "runc"
        runc.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" END >> {self._calls}\nexit {status}\n")
        runc.chmod(0o755)

    def specify(self, **annotations: str) -> None:
        """Write the bundle's specification, with one volume and these annotations."""
        spec = {
            "annotations": {"io.container.manager": "libpod", **annotations},
            "mounts": [
                {"destination": "/proc", "source": "proc"},
                {"destination": "/data", "source": str(self.volume)},
            ],
        }
        (self.bundle / "config.json").write_text(json.dumps(spec))

    def plan_restore(self, *mounts: dict[str, Any]) -> None:
        """Ask for a restore of this bundle."""
        plan = {
            "images": str(self.images),
            "work": "/work",
            "criu_config": "/criu.conf",
            "mounts": mounts,
        }
        self.plan.write_text(json.dumps(plan))
        self.specify(**{engine.RESTORE_ANNOTATION: str(self.plan)})

    def call(self, *words: str, program: list[str] | None = None) -> Called:
        """Call the shim as an engine does, and return which calls of runc came of it."""
        self._calls.unlink(missing_ok=True)
        environment = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "SPOTRUN_RUN": str(self.paths.run),
        }
        argv = program or [sys.executable, "-IS", str(_SHIM)]
        done = subprocess.run(
            [*argv, *words],
            env=environment,
            cwd=self.bundle,
            check=False,
            stderr=subprocess.DEVNULL,
        )
        said = self._calls.read_text() if self._calls.exists() else ""
        return Called(done.returncode, [it.splitlines() for it in said.split("END\n")[:-1]])

    def create(self) -> Called:
        """Create the container of the bundle as Podman does."""
        words = ["create", "--bundle", str(self.bundle), "--pid-file", "/pid", "it"]
        return self.call(*_GLOBALS, *words)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Give a bench with an ordinary bundle."""
    return Bench(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        "--version",
        "features",
        "",
        "checkpoint --help",
        "start it",
        "exec --pid-file /p --process /process.json --detach it",
        "kill it 9",
        "kill --all it KILL",
        "delete --force it",
        "state it",
        "ps --format json it",
        "pause it",
        "resume it",
        "checkpoint --image-path /i --work-path /w it",
        "restore --bundle /b --detach --image-path /i --work-path /w it",
        "update --resources - create",
        "exec it create --bundle /nowhere",
    ],
)
@pytest.mark.parametrize("flags", [[], _GLOBALS, ["--root=/run/runc", "--debug"]], ids=len)
def test_call_of_an_engine_goes_to_runc_unchanged(
    bench: Bench, words: str, flags: list[str]
) -> None:
    """Whatever Podman or Docker asks for, with whatever global options."""
    argv = [*flags, *words.split()]
    assert bench.call(*argv).runc == [argv]


def test_words_with_spaces_and_wildcards_go_to_runc_unchanged(bench: Bench) -> None:
    """No shell comes in between."""
    argv = ["exec", "it", "sh", "-c", "echo 'a  b' $HOME *", "", "--", "ü"]
    assert bench.call(*argv).runc == [argv]


def test_status_of_runc_is_that_of_the_shim(bench: Bench) -> None:
    """The engine sees no difference."""
    bench.runc(42)
    assert bench.call("kill", "it", "9").status == 42


@pytest.mark.parametrize("option", ["--bundle {}", "--bundle={}", "-b {}", "-b={}", ""])
def test_create_without_our_annotation_is_an_ordinary_create(bench: Bench, option: str) -> None:
    """However the bundle is named; without a name it is the working directory."""
    argv = ["create", *option.format(bench.bundle).split(), "it"]
    called = bench.call(*argv)
    assert (called.status, called.runc) == (0, [argv])


def test_annotation_of_another_kind_is_not_ours(bench: Bench) -> None:
    """Our word may stand anywhere in the specification, like in the command."""
    bench.specify(note=engine.RESTORE_ANNOTATION)
    assert bench.create().runc[0][len(_GLOBALS)] == "create"


@pytest.mark.parametrize("option", ["--bundle {}", "--bundle={}", "-b {}"])
def test_create_with_a_plan_is_a_restore(bench: Bench, option: str) -> None:
    """Global options, bundle and pid file stay where they were; the container comes last."""
    bench.plan_restore()
    bundle = option.format(bench.bundle).split()
    called = bench.call(*_GLOBALS, "create", *bundle, "--pid-file", "/pid", "it")
    paths = ["--image-path", str(bench.images), "--work-path", "/work"]
    restore = ["restore", "--detach", *bundle, "--pid-file", "/pid", *paths, "it"]
    assert (called.status, called.runc) == (0, [[*_GLOBALS, *restore]])


def test_restored_container_has_the_criu_options_of_the_plan(bench: Bench) -> None:
    """They are set in the bundle; what else is in it stays."""
    bench.plan_restore()
    before = json.loads((bench.bundle / "config.json").read_bytes())
    bench.create()
    after = json.loads((bench.bundle / "config.json").read_bytes())
    assert after["annotations"].pop(engine.CRIU_ANNOTATION) == "/criu.conf"
    assert after == before


def test_mounts_are_filled_before_the_restore(bench: Bench, tmp_path: Path) -> None:
    """What a fresh volume held is replaced, also hidden files, folders and links out of it."""
    saved, archive, outside = tmp_path / "saved", tmp_path / "1.tar", tmp_path / "outside"
    (saved / "sub").mkdir(parents=True)
    (saved / "sub" / "file").write_text("saved")
    trees.pack(SystemRunner(), saved, archive)
    outside.mkdir()
    (outside / "file").write_text("untouched")
    (bench.volume / "old" / "deep").mkdir(parents=True)
    (bench.volume / ".hidden").write_text("of the image")
    (bench.volume / "link").symlink_to(outside)
    bench.plan_restore({"destination": "/data", "unpack": trees.unpack_command(archive)})
    assert bench.create().status == 0
    assert {str(it.relative_to(bench.volume)) for it in bench.volume.rglob("*")} == {
        "sub",
        "sub/file",
    }
    assert (outside / "file").read_text() == "untouched"


def test_bind_through_a_symbolic_link_is_made_direct(bench: Bench, tmp_path: Path) -> None:
    """CRIU could not restore it; what is no bind keeps its source."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.touch()
    link.symlink_to("target")
    bench.plan_restore()
    config = bench.bundle / "config.json"
    spec = json.loads(config.read_bytes())
    spec["mounts"].append({"destination": "/file", "source": str(link), "options": ["bind"]})
    config.write_text(json.dumps(spec))
    bench.create()
    sources = [mount["source"] for mount in json.loads(config.read_bytes())["mounts"]]
    assert sources == ["proc", str(bench.volume), str(target)]


def test_mounts_that_cannot_be_filled_stop_the_restore(bench: Bench, tmp_path: Path) -> None:
    """A job does not go on with half of its files."""
    unpack = trees.unpack_command(tmp_path / "missing.tar")
    bench.plan_restore({"destination": "/data", "unpack": unpack})
    called = bench.create()
    assert called.status != 0
    assert called.runc == []
    assert bench.plan.exists()


def test_start_of_a_restored_container_does_nothing_once(bench: Bench) -> None:
    """It runs already; a later start, after it has ended, is an ordinary one."""
    bench.plan_restore()
    bench.create()
    assert not bench.plan.exists()
    assert bench.call(*_GLOBALS, "start", "other").runc == [[*_GLOBALS, "start", "other"]]
    first, second = (bench.call(*_GLOBALS, "start", "it") for _ in range(2))
    assert (first.status, first.runc) == (0, [])
    assert second.runc == [[*_GLOBALS, "start", "it"]]


def test_failed_restore_keeps_the_plan(bench: Bench) -> None:
    """Its status is runc's, and the container does not count as restored."""
    bench.plan_restore()
    bench.runc(3)
    assert bench.create().status == 3
    assert bench.plan.exists()
    assert list(bench.paths.restored.iterdir()) == []


def test_plan_is_carried_out_once(bench: Bench) -> None:
    """A container that ended and is started again begins anew, as the engine means it."""
    bench.plan_restore()
    bench.create()
    assert bench.create().runc[0][len(_GLOBALS)] == "create"


def test_plan_that_is_gone_makes_an_ordinary_create(bench: Bench) -> None:
    """Its restore was taken back."""
    bench.plan_restore()
    bench.plan.unlink()
    assert bench.create().runc[0][len(_GLOBALS)] == "create"


def test_missing_bundle_is_an_error(bench: Bench) -> None:
    """Nothing is created from a bundle that cannot be read."""
    called = bench.call("create", "--bundle", "/nowhere", "it")
    assert called.status != 0
    assert called.runc == []


def test_annotations_are_those_that_the_engine_is_given() -> None:
    """The shim cannot import the engine's names, and has its own."""
    assert shim.ANNOTATION == engine.RESTORE_ANNOTATION
    assert shim.CRIU_ANNOTATION == engine.CRIU_ANNOTATION


def test_installed_shim_serves_calls(bench: Bench) -> None:
    """It needs neither the environment nor the package, and knows its run folder."""
    launcher.install(bench.paths)
    bench.plan_restore()
    bench.paths.run.rename(bench.folder / "moved")
    installed = [str(bench.paths.shim)]
    argv = ["create", "--bundle", str(bench.bundle), "it"]
    assert bench.call(*argv, program=installed).runc == [argv]
    (bench.folder / "moved").rename(bench.paths.run)
    assert bench.call(*argv, program=installed).runc[0][0] == "restore"
    assert (bench.paths.restored / "it").exists()


def test_installing_again_changes_nothing(bench: Bench) -> None:
    """An engine may be running it at that instant; one of another version is replaced."""
    launcher.install(bench.paths)
    first = bench.paths.shim.stat()
    launcher.install(bench.paths)
    assert bench.paths.shim.stat().st_ino == first.st_ino
    text = bench.paths.shim.read_text()
    bench.paths.shim.write_text("old")
    launcher.install(bench.paths)
    assert bench.paths.shim.read_text() == text
    assert os.access(bench.paths.shim, os.X_OK)
