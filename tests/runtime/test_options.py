"""What engines are given for a user's options."""

import os
import shlex
from pathlib import Path

import pytest

from spotrun.images.errors import NotCapturable, UsageError
from spotrun.images.runspec import RunSpec
from spotrun.runtime import options
from tests.fakes.engine import FakeEngine
from tests.fakes.oci import FakeOci

_HALF = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
_LOG = "--log-driver=k8s-file"
_OWN = "spotrun has its own OCI runtime: "
_SHARED = "the host's shared memory cannot be saved: --ipc=host has become "


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    """Give an engine that is a Podman."""
    return FakeEngine(tmp_path, FakeOci())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", _LOG),
        ("-itd -v /a:/b", f"{_LOG} --interactive --tty --detach --volume=/a:/b"),
        ("--gpus all", f"{_LOG} --device=nvidia.com/gpu=all"),
        ("--rm --gpus=2", f"{_LOG} --rm --device=nvidia.com/gpu=0 --device=nvidia.com/gpu=1"),
        ("--gpus 0", _LOG),
        ("--ipc host", f"{_LOG} --ipc=private --shm-size={_HALF}"),
        ("--ipc=host --shm-size 1g", f"{_LOG} --ipc=private --shm-size=1g"),
        ("--ipc=shareable", f"{_LOG} --ipc=shareable"),
        ("--runtime=runc", _LOG),
        ("--runtime nvidia --gpus all", f"{_LOG} --device=nvidia.com/gpu=all"),
        ("--runtime=nvidia", f"{_LOG} --device=nvidia.com/gpu=all"),
        (
            "--runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=1",
            f"{_LOG} --device=nvidia.com/gpu=1 --env=NVIDIA_VISIBLE_DEVICES=1",
        ),
        ("--log-driver json-file", _LOG),
        ("--log-driver=none", "--log-driver=none"),
        ("--net=my --future=1 -X 2", f"{_LOG} --network=my --future=1 -X 2"),
    ],
)
def test_options_are_fitted_to_what_can_be_saved(
    engine: FakeEngine, given: str, words: str
) -> None:
    """All others are as they were given."""
    assert options.fit(engine, given.split()).words == words.split()


@pytest.mark.parametrize(
    ("given", "notes"),
    [
        ("-it --rm --device /dev/null", []),
        ("--ipc=host --shm-size=1g", [f"{_SHARED}--ipc=private"]),
        ("--ipc=host", [f"{_SHARED}--ipc=private --shm-size={_HALF}"]),
        ("--runtime=/usr/bin/crun", [f"{_OWN}--runtime=/usr/bin/crun is left out"]),
        ("--runtime=nvidia", [f"{_OWN}--runtime=nvidia has become --device=nvidia.com/gpu=all"]),
        (
            "--log-driver=journald",
            ["--log-driver=journald: what the job writes does not come along with it"],
        ),
        (
            "--device=/dev/dri",
            ["--device=/dev/dri: the job cannot be saved while one of its processes uses that"],
        ),
        (
            "--network=container:db",
            ["--network=container:db: the job can only go on where a container of that name is"],
        ),
        (
            "--volumes-from db",
            ["--volumes-from=db: the job can only go on where a container of that name is"],
        ),
        ("--isolation=x", ["--isolation is an option of docker's; --engine docker has it"]),
    ],
)
def test_user_is_told_what_is_not_as_the_options_say(
    engine: FakeEngine, given: str, notes: list[str]
) -> None:
    """One line each; what is passed on stands first in it."""
    assert options.fit(engine, given.split()).notes == tuple(notes)


@pytest.mark.parametrize(
    "given",
    [
        "--pid=host",
        "--network host",
        "--net=host",
        "--pod=new:p",
        "--rootfs",
        "--root /x",
        "-v /a:/b:O",
        "-v /a:/b:ro,O",
    ],
)
def test_option_that_rules_a_snapshot_out_is_refused(given: str) -> None:
    """The reason says what to do."""
    with pytest.raises(NotCapturable, match=r"^job 'x' cannot be saved: .*(without|leave|import)"):
        options.refuse("x", given.split())


@pytest.mark.parametrize(
    "given", ["--network=hosts --pid=container:x --rootfs=false -v /a:/b:ro --privileged", ""]
)
def test_other_options_are_not_refused(given: str) -> None:
    """A name that begins like `host` is a network's, and a flag can be off."""
    options.refuse("x", given.split())


def test_foreign_oci_runtime_is_refused(engine: FakeEngine) -> None:
    """What isolates by other means than runc cannot be replaced by it."""
    with pytest.raises(UsageError, match="--runtime=kata: "):
        options.fit(engine, ["--runtime=kata"])


def test_container_that_is_made_again_has_the_lasting_options(engine: FakeEngine) -> None:
    """Name, terminal, environment and files of the first host are left out."""
    given = "-d --name j --env-file f -e A --shm-size 1g -v/a:/b --cidfile c --rm --gpus 1"
    words = f"{_LOG} --shm-size=1g --volume=/a:/b --rm --device=nvidia.com/gpu=0"
    assert options.again(engine, given.split()) == words.split()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("-it -v /a:/b", "-it -v /a:/b"),
        ("-v ./a:/b:ro", "--volume=/home/u/a:/b:ro"),
        ("-v .:/b -v name:/c", "--volume=/home/u:/b --volume=name:/c"),
        ("--mount type=bind,src=../x,target=/b", "--mount=type=bind,src=/home/x,target=/b"),
        ("--mount type=volume,src=x,target=/b", "--mount type=volume,src=x,target=/b"),
    ],
)
def test_paths_of_the_host_are_kept_in_full(given: str, kept: str) -> None:
    """A restore is done in another folder."""
    spec = RunSpec(tuple(given.split()), "image", ())
    assert options.settled(spec, Path("/home/u")).options == tuple(kept.split())


def test_labels_in_a_file_become_options(tmp_path: Path) -> None:
    """The other host has no such file; labels on the command line come last and hold."""
    (tmp_path / "labels").write_text("a=1\n# none\n\n b=two words\n")
    spec = RunSpec(tuple(shlex.split("-l b=3 --label-file labels")), "image", ())
    kept = ("--label=a=1", "--label=b=two words", "--label=b=3")
    assert options.settled(spec, tmp_path).options == kept


def test_missing_file_of_labels_is_a_usage_error(tmp_path: Path) -> None:
    """It says which."""
    with pytest.raises(UsageError, match="--label-file=none: "):
        options.settled(RunSpec(("--label-file=none",), "image", ()), tmp_path)
