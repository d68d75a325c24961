"""The shim is runc for every call but one: the real file, and a runc that writes down its calls."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, strategies

from spotrun.images import trees
from spotrun.images.address import Address
from spotrun.images.care import Care
from spotrun.images.process import SystemRunner
from spotrun.images.runspec import RunSpec
from spotrun.runtime import engine, jobs, launcher, shim, shim_restore
from spotrun.runtime.paths import Paths

_GLOBALS = ["--root", "/run/docker/runtime-runc/moby", "--log", "/run/log.json",
            "--log-format", "json", "--systemd-cgroup"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Called:
    """What came of one call of the shim."""

    status: int
    runc: list[list[str]]
    """The calls of runc that it led to."""


def bind(destination: str, source: Path, *options: str) -> dict[str, Any]:
    """Return a mount as engines specify it."""
    return {
        "destination": destination,
        "type": "bind",
        "source": str(source),
        "options": ["rbind", *options],
    }


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
        self.mounts: list[dict[str, Any]] = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            bind("/data", self.volume, "rprivate"),
        ]
        self.sysctls: dict[str, str] = {}
        self._calls = folder / "calls"
        launcher.install(self.paths)
        self.runc(0)
        self.program("unshare")
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
            "mounts": self.mounts,
            "linux": {
                "namespaces": [{"type": "pid"}, {"type": "network", "path": "/run/netns/it"}],
                "maskedPaths": ["/proc/here"],
                "readonlyPaths": ["/proc/also-here"],
            },
        }
        (self.bundle / "config.json").write_text(json.dumps(spec))

    @property
    def spec(self) -> Any:  # noqa: ANN401 # any JSON
        """What the bundle's specification is now."""
        return json.loads((self.bundle / "config.json").read_bytes())

    def plan_restore(
        self, *trees: dict[str, Any], mounts: list[dict[str, Any]] | None = None
    ) -> None:
        """Ask for a restore of this bundle, by default with the mounts that it has."""
        plan = {
            "images": str(self.images),
            "work": "/work",
            "criu_config": "/criu.conf",
            "mounts": self.mounts if mounts is None else mounts,
            "masked_paths": ["/proc/there"],
            "readonly_paths": ["/proc/also-there"],
            "sysctls": self.sysctls,
            "trees": trees,
        }
        self.plan.write_text(json.dumps(plan))
        self.specify(**{engine.RESTORE_ANNOTATION: str(self.plan)})

    def program(self, name: str) -> None:
        """Let a program that the shim may call write down its arguments, with runc's."""
        program = self.folder / "bin" / name
        goes_on = '[ "$1" = --mount ] && shift 3 && exec "$@"' if name == "unshare" else ""
        call = f"printf '%s\\n' {name} \"$@\" END >> {self._calls}"
        program.write_text(f"#!/bin/sh\n{goes_on}\n{call}\n")
        program.chmod(0o755)

    def script(self, name: str, text: str) -> None:
        """Let a program do this, its output being the call that is written down."""
        program = self.folder / "bin" / name
        program.write_text(
            f"#!/bin/sh\n{{ {text}; }} >> {self._calls}\necho END >> {self._calls}\n"
        )
        program.chmod(0o755)

    @contextmanager
    def wanted_afresh(self) -> Iterator[None]:
        """Be a `spotrun restart` of job `train`."""
        with (self.paths.afresh / "train").open("w") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX)
            yield

    def record(
        self, *, parent: str | None, place: jobs.Place = jobs.Place.HERE, care: Care | None = None
    ) -> None:
        """Let job `train` be known."""
        run, store = RunSpec((), "image", ()), Address("/store", None)
        record = jobs.Job("train", run=run, store=store, parent=parent, place=place, care=care)
        jobs.save(self.paths, record)

    def call(self, *words: str, program: list[str] | None = None) -> Called:
        """Call the shim as an engine does, and return which calls of runc came of it."""
        self._calls.unlink(missing_ok=True)
        environment = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "SPOTRUN_RUN": str(self.paths.run),
            "SPOTRUN_STATE": str(self.paths.state),
        }
        argv = program or [str(self.paths.shim)]
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
    assert (called.status, called.runc) == (0, [[shim.QUIET, *argv]])


def test_annotation_of_another_kind_is_not_ours(bench: Bench) -> None:
    """Our word may stand anywhere in the specification, like in the command."""
    bench.specify(note=engine.RESTORE_ANNOTATION)
    assert bench.create().runc[0][: len(_GLOBALS) + 2] == [shim.QUIET, *_GLOBALS, "create"]


@pytest.mark.parametrize("option", ["--bundle {}", "--bundle={}", "-b {}"])
def test_create_with_a_plan_is_a_restore(bench: Bench, option: str) -> None:
    """Global options, bundle and pid file stay where they were; the container comes last."""
    bench.plan_restore()
    bundle = option.format(bench.bundle).split()
    called = bench.call(*_GLOBALS, "create", *bundle, "--pid-file", "/pid", "it")
    paths = ["--image-path", str(bench.images), "--work-path", "/work"]
    restore = ["restore", "--detach", *bundle, "--pid-file", "/pid", *paths, "it"]
    assert (called.status, called.runc) == (0, [[*_GLOBALS, *restore]])


def test_restored_container_has_what_the_plan_says(bench: Bench) -> None:
    """CRIU's options and what is masked are set in the bundle; what else is in it stays."""
    bench.plan_restore()
    before = bench.spec
    bench.create()
    after = bench.spec
    assert after["annotations"].pop(engine.CRIU_ANNOTATION) == "/criu.conf"
    assert after["linux"].pop("maskedPaths") == ["/proc/there"]
    assert after["linux"].pop("readonlyPaths") == ["/proc/also-there"]
    assert after["linux"].pop("sysctl") == {}
    del before["linux"]["maskedPaths"], before["linux"]["readonlyPaths"]
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
    bench.mounts.append(bind("/file", link))
    bench.plan_restore()
    bench.create()
    sources = [mount["source"] for mount in bench.spec["mounts"]]
    assert sources == ["proc", str(bench.volume), str(target)]


def test_mounts_are_those_of_the_snapshot(bench: Bench, tmp_path: Path) -> None:
    """Another engine mounts other things; its sources count where both have a mount."""
    (tmp_path / "init").touch()
    saved = [
        {"destination": "/sys", "type": "sysfs", "source": "sysfs"},
        bind("/data", Path("/of/the/other/engine"), "rprivate"),
        bind("/run/podman-init", tmp_path / "init"),
        bind("/run/.containerenv", Path("/no/such/file")),
    ]
    bench.plan_restore(mounts=saved)
    bench.create()
    empty = bench.bundle / "spotrun-empty"
    assert [(mount["destination"], mount["source"]) for mount in bench.spec["mounts"]] == [
        ("/sys", "sysfs"),
        ("/data", str(bench.volume)),
        ("/run/podman-init", str(tmp_path / "init")),
        ("/run/.containerenv", str(empty)),
    ]
    assert empty.read_bytes() == b""


def test_dev_shm_of_podman_is_made_under_docker(bench: Bench) -> None:
    """Where one binds a folder, the other mounts a tmpfs, and its size is what was asked for."""
    bench.program("mount")
    here = {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["size=32m"]}
    bench.mounts.append(here)
    bench.plan_restore(mounts=[bind("/dev/shm", Path("/of/podman"), "rprivate")])
    place = str(bench.bundle / "spotrun-tmpfs")
    mount, restore = bench.create().runc
    assert mount == ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", place]
    assert restore[len(_GLOBALS)] == "restore"
    assert bench.spec["mounts"][0]["source"] == place


def test_volumes_that_were_not_private_are_under_one_shared_mount(bench: Bench) -> None:
    """As they were under Docker's folder; CRIU makes them slaves of one group again."""
    bench.program("mount")
    (bench.folder / "volumes").mkdir()
    folders = [bench.folder / "volumes" / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        bench.mounts.append(bind(f"/{folder.name}", folder))
    bench.plan_restore()
    place = str(bench.bundle / "spotrun-shared")
    calls = bench.create().runc
    assert calls[0] == ["mount", "--rbind", str(bench.folder / "volumes"), place]
    assert calls[1] == ["mount", "--make-rshared", place]
    sources = {mount["destination"]: mount["source"] for mount in bench.spec["mounts"]}
    assert sources["/data"] == str(bench.volume)
    assert (sources["/one"], sources["/two"]) == (f"{place}/one", f"{place}/two")


def test_network_that_runc_was_to_make_is_there_for_criu(bench: Bench) -> None:
    """Docker names none and furnishes it by a hook; the name goes with the container."""
    bench.program("umount")
    bench.plan_restore()
    spec = bench.spec
    del spec["linux"]["namespaces"][1]["path"]
    (bench.bundle / "config.json").write_text(json.dumps(spec))
    place = bench.paths.networks / "it"
    unshare, restore = bench.create().runc
    assert restore[len(_GLOBALS)] == "restore"
    assert unshare == ["unshare", f"--net={place}", "true"]
    assert bench.spec["linux"]["namespaces"][1]["path"] == str(place)
    assert place.exists()
    umount, delete = bench.call("delete", "it").runc
    assert (umount, delete) == (["umount", "--lazy", str(place)], ["delete", "it"])
    assert not place.exists()


@pytest.mark.parametrize("place", jobs.Place)
def test_saved_job_is_not_started_afresh(bench: Bench, place: jobs.Place) -> None:
    """Neither by a restart policy nor by hand: the engine gets the reason, in runc's way."""
    bench.record(parent="20261201T100000Z-000000", place=place)
    bench.specify(**{engine.JOB_LABEL: "train"})
    log = bench.folder / "log.json"
    called = bench.call("--log", str(log), "create", "--bundle", str(bench.bundle), "it")
    assert (called.status, called.runc) == (1, [])
    (said,) = [json.loads(line) for line in log.read_text().splitlines()]
    assert said["level"] == "error"
    assert "`spotrun restore train` goes on with it" in said["msg"]


def test_saved_job_that_comes_back_is_told_to_go_on_by_its_own_command(bench: Bench) -> None:
    """It would take the lease, and be looked after."""
    bench.record(parent="20261201T100000Z-000000", care=Care())
    bench.specify(**{engine.JOB_LABEL: "train"})
    log = bench.folder / "log.json"
    called = bench.call("--log", str(log), "create", "--bundle", str(bench.bundle), "it")
    assert called.runc == []
    said = json.loads(log.read_text())["msg"]
    assert "`spotrun run --job train …` goes on with it" in said
    assert "`spotrun run --fresh --job train …` starts it afresh" in said


def test_saved_job_is_started_afresh_when_its_user_says_so(bench: Bench) -> None:
    """As long as the command goes on that says so; the mark of a killed one means nothing."""
    bench.record(parent="20261201T100000Z-000000", place=jobs.Place.HERE)
    bench.specify(**{engine.JOB_LABEL: "train"})
    with bench.wanted_afresh():
        assert bench.create().runc[0][: len(_GLOBALS) + 2] == [shim.QUIET, *_GLOBALS, "create"]
    assert (bench.paths.afresh / "train").exists()
    assert bench.create().runc == []


@pytest.mark.parametrize("lease", ["", '{"barred": true}', '{"barred": false}'])
@pytest.mark.parametrize("supervised", [False, True])
def test_job_that_is_to_be_looked_after_begins_only_where_it_is(
    bench: Bench, lease: str, *, supervised: bool
) -> None:
    """The engine goes on with what a killed `run` asked for, or starts it after a reboot."""
    bench.record(parent=None, care=Care())
    bench.specify(**{engine.JOB_LABEL: "train"})
    if lease:
        (bench.paths.leases / "train.json").write_text(lease)
    with (bench.paths.supervisors / "train.lock").open("w") as lock:
        if supervised:
            fcntl.flock(lock, fcntl.LOCK_EX)
        log = bench.folder / "log.json"
        called = bench.call("--log", str(log), "create", "--bundle", str(bench.bundle), "it")
    if supervised and "false" in lease:
        assert "create" in called.runc[0]
    else:
        assert (called.status, called.runc) == (1, [])
        assert "nobody looks after job 'train' any more" in json.loads(log.read_text())["msg"]


@pytest.mark.parametrize("name", ["../../victim", "/etc/passwd", "a/b", ".hidden", ""])
def test_annotation_that_is_no_name_is_that_of_no_job(bench: Bench, name: str) -> None:
    """It would be part of a path, and anybody may write one."""
    (bench.folder / "victim").write_text("untouched")
    bench.specify(**{engine.JOB_LABEL: name})
    assert bench.create().runc[0][: len(_GLOBALS) + 2] == [shim.QUIET, *_GLOBALS, "create"]
    assert (bench.folder / "victim").read_text() == "untouched"
    assert not bench.paths.notes.exists()
    assert engine.CRIU_ANNOTATION not in bench.spec["annotations"]


def test_plan_elsewhere_is_none_of_ours(bench: Bench, tmp_path: Path) -> None:
    """What a plan says is done as root."""
    bench.plan_restore()
    foreign = bench.plan.rename(tmp_path / "foreign.json")
    bench.specify(**{engine.RESTORE_ANNOTATION: str(foreign)})
    assert bench.create().runc[0][: len(_GLOBALS) + 2] == [shim.QUIET, *_GLOBALS, "create"]


def test_job_that_begins_costs_no_python(bench: Bench) -> None:
    """It would take as long as all else of the shim; what engines write has no spaces."""
    bench.paths.shim.write_text(launcher.shim(bench.paths).replace(sys.executable, "false"))
    notes = {
        engine.JOB_LABEL: "train",
        engine.CRIU_ANNOTATION: str(bench.paths.criu_config("train")),
    }
    config = bench.bundle / "config.json"

    def create(**more: str) -> Called:
        config.write_text(json.dumps({"annotations": {**notes, **more}}, separators=(",", ":")))
        return bench.create()

    assert create().runc == []
    bench.record(parent=None)
    assert create().runc[0][: len(_GLOBALS) + 2] == [shim.QUIET, *_GLOBALS, "create"]
    assert create(**{"io.spotrun.restore": "/plan"}).runc == []
    assert create(**{engine.JOB_LABEL: "../train"}).runc == []
    entry = bench.paths.journal / "train.json"
    entry.write_text("{}")
    assert create().runc == []
    entry.unlink()
    bench.record(parent=None, care=Care())
    assert create().runc == []
    bench.record(parent="20261201T100000Z-000000")
    assert create().runc == []


def test_job_that_was_never_saved_starts_afresh(bench: Bench) -> None:
    """So does one that spotrun does not know."""
    bench.specify(**{engine.JOB_LABEL: "train"})
    assert bench.create().runc[0][: len(_GLOBALS) + 2] == [shim.QUIET, *_GLOBALS, "create"]
    bench.record(parent=None, place=jobs.Place.HERE)
    assert bench.create().runc[0][: len(_GLOBALS) + 2] == [shim.QUIET, *_GLOBALS, "create"]


def test_mounts_that_cannot_be_filled_stop_the_restore(bench: Bench, tmp_path: Path) -> None:
    """A job does not go on with half of its files, and the engine gets the reason."""
    unpack = trees.unpack_command(tmp_path / "missing.tar")
    bench.plan_restore({"destination": "/data", "unpack": unpack})
    log = bench.folder / "log.json"
    called = bench.call("--log", str(log), "create", "--bundle", str(bench.bundle), "it")
    assert (called.status, called.runc) == (1, [])
    assert bench.plan.exists()
    assert "restoring: tar failed: " in json.loads(log.read_text())["msg"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_what_is_mounted_for_a_restore_is_not_in_the_bundle_that_the_engine_removes(
    bench: Bench, tmp_path: Path
) -> None:
    """Also if the shim is killed: the files of all volumes are behind that mount."""
    (bench.folder / "bin" / "unshare").unlink()
    volumes = [bench.folder / "volumes" / name for name in ("one", "two")]
    for volume in volumes:
        volume.mkdir(parents=True)
        (volume / "file").touch()
        bench.mounts.append(bind(f"/{volume.name}", volume))
    bench.plan_restore()
    seen = tmp_path / "seen"
    bench.script("runc", f"ls {bench.bundle}/spotrun-shared > {seen}; kill -KILL $PPID")
    assert bench.create().status != 0
    assert seen.read_text().split() == ["one", "two"]
    assert list((bench.bundle / "spotrun-shared").iterdir()) == []
    shutil.rmtree(bench.bundle)
    assert all((volume / "file").exists() for volume in volumes)


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
    """A container that ended and is started again would begin anew, without its past."""
    bench.plan_restore()
    bench.specify(**{engine.RESTORE_ANNOTATION: str(bench.plan), engine.JOB_LABEL: "train"})
    assert bench.create().runc[0][len(_GLOBALS)] == "restore"
    called = bench.create()
    assert (called.status, called.runc) == (1, [])
    with bench.wanted_afresh():
        assert bench.create().runc[0][: len(_GLOBALS) + 2] == [shim.QUIET, *_GLOBALS, "create"]


@pytest.mark.parametrize(
    ("phase", "done", "refused"),
    [("store", [], False), ("publish", [], True), ("end", ["store", "publish"], True)],
)
def test_job_may_have_been_saved_when_the_power_was_cut(
    bench: Bench, phase: str, done: list[str], *, refused: bool
) -> None:
    """The engine starts its containers before the next spotrun says how that ended."""
    entry = {"phase": phase, "state": {"records": [{"name": name} for name in done]}}
    (bench.paths.journal / "train.json").write_text(json.dumps(entry))
    bench.specify(**{engine.JOB_LABEL: "train"})
    assert (bench.create().runc == []) is refused


def test_sysctls_of_the_network_are_set_by_a_hook(bench: Bench) -> None:
    """After those of the engine, which furnish the network; CRIU restores all others."""
    bench.sysctls = {"net.ipv4.tcp_keepalive_time": "99", "kernel.msgmax": "9999"}
    bench.plan_restore()
    bench.create()
    (hook,) = bench.spec["hooks"]["prestart"]
    assert hook["path"].endswith("/nsenter")
    assert hook["args"][:2] == ["nsenter", "--net=/run/netns/it"]
    assert hook["args"][-1] == "net/ipv4/tcp_keepalive_time=99"
    assert bench.spec["linux"]["sysctl"] == bench.sysctls


def test_criu_is_in_the_cgroup_namespace_that_the_container_is_to_have(bench: Bench) -> None:
    """Runc finds the shim in CRIU's place, which waits until it is in the right cgroup."""
    bench.program("criu")
    bench.plan_restore()
    spec = bench.spec
    spec["linux"]["namespaces"].append({"type": "cgroup"})
    (bench.bundle / "config.json").write_text(json.dumps(spec))
    bench.script("runc", "command -v criu; echo END; (sleep 0.2; echo) | criu swrk 0")
    argv = ["create", "--bundle", str(bench.bundle), "it"]
    found, unshare, _ = bench.call(*argv).runc
    assert found == [str(bench.bundle / "spotrun-bin" / "criu")]
    assert unshare == ["unshare", "--cgroup", "criu", "swrk", "0"]


def test_criu_is_called_directly_for_a_container_in_the_cgroups_of_the_host(bench: Bench) -> None:
    """It has no namespace to be made."""
    bench.program("criu")
    bench.plan_restore()
    bench.script("runc", "command -v criu")
    assert bench.create().runc == [[str(bench.folder / "bin" / "criu")]]


def test_processes_are_restored_from_an_oom_score_of_zero(bench: Bench) -> None:
    """CRIU sets none that is 0, and containerd's own is 1."""
    bench.plan_restore()
    bench.script("runc", "cat /proc/self/oom_score_adj")
    shim = ["choom", "-n", "1", "--", str(bench.paths.shim)]
    argv = ["create", "--bundle", str(bench.bundle), "it"]
    assert bench.call(*argv, program=shim).runc == [["0"]]


_JSON: Final = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | strategies.text()
    | strategies.floats(allow_nan=False),
    lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
)  # fmt: skip


@given(strategies.dictionaries(strategies.text(), _JSON), strategies.sampled_from([None, 1]))
def test_json_is_read_as_the_package_does_that_takes_long_to_load(
    document: dict[str, object], indent: int | None
) -> None:
    """As engines write it, and as others may."""
    for raw in (json.dumps(document, indent=indent), json.dumps(document, ensure_ascii=False)):
        assert shim.parsed(raw.encode()) == document


@pytest.mark.parametrize("raw", [b"", b"{", b'{"a":}', b"{} {}", b"[]", b'{"a":"\xff"}'])
def test_record_that_is_no_json_says_nothing(bench: Bench, raw: bytes) -> None:
    """The package's own errors are not there where it is not loaded."""
    place = bench.paths.state / "jobs" / "train.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(raw)
    bench.specify(**{engine.JOB_LABEL: "train"})
    assert bench.create().runc


def test_missing_bundle_is_an_error(bench: Bench) -> None:
    """Nothing is created from a bundle that cannot be read."""
    called = bench.call("create", "--bundle", "/nowhere", "it")
    assert called.status != 0
    assert called.runc == []


def test_annotations_are_those_that_the_engine_is_given() -> None:
    """The shim cannot import the engine's names, and has its own."""
    assert shim.ANNOTATION == engine.RESTORE_ANNOTATION
    assert shim.CRIU_ANNOTATION == shim_restore.CRIU_ANNOTATION == engine.CRIU_ANNOTATION
    assert shim.JOB_ANNOTATION == engine.JOB_LABEL


def test_installed_shim_serves_calls(bench: Bench) -> None:
    """It needs neither the environment nor the package, and knows its run folder."""
    bench.plan_restore()
    bench.paths.run.rename(bench.folder / "moved")
    argv = ["create", "--bundle", str(bench.bundle), "it"]
    assert bench.call(*argv).runc == [[shim.QUIET, *argv]]
    (bench.folder / "moved").rename(bench.paths.run)
    assert bench.call(*argv).runc[0][0] == "restore"
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
