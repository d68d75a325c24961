"""`spotrun run` reads its command line as docker does, and says what it makes of it."""

import subprocess
import sys

import pytest

from spotrun.runtime import jobs
from tests.cli.conftest import Cli
from tests.fakes.host import FakeHost


@pytest.mark.parametrize("words", ["--help", "--rm --help", "--help busybox", "-it --help=true"])
def test_help_is_shown_wherever_an_option_may_stand(cli: Cli, words: str) -> None:
    """Nothing is started."""
    said = cli("run", *words.split())
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith("Usage: spotrun run ")


@pytest.mark.parametrize(
    "words", ["-h --help busybox", "--name --help", "busybox --help", "--help=false busybox"]
)
def test_help_that_is_a_value_or_the_commands_is_none(cli: Cli, words: str) -> None:
    """-h is the host name of the container, and a value can be anything."""
    assert "Usage:" not in cli("run", *words.split()).out


@pytest.mark.parametrize("words", ["--network=host", "--pid host --rm", "-v /a:/b:O", "--pod p"])
def test_job_that_could_not_be_saved_is_not_started(cli: Cli, fake: FakeHost, words: str) -> None:
    """The reason is said before anything is made."""
    fake.engine.add_image("busybox", b"layer")
    said = cli("run", "-d", "--name", "job", *words.split(), "busybox")
    assert (said.status, said.out) == (125, "")
    assert said.err.startswith("spotrun: job 'job' cannot be saved: ")
    assert fake.engine.jobs() == []
    assert jobs.load(fake.host.paths, "job") is None


def test_what_is_given_in_the_place_of_an_option_is_told(cli: Cli, fake: FakeHost) -> None:
    """One line on stderr, and the job keeps the option as it was given."""
    fake.engine.add_image("busybox", b"layer")
    said = cli("run", "-d", "--name=job", "--ipc=host", "--shm-size=1g", "busybox")
    assert said.status == 0
    assert said.err.splitlines() == [
        "spotrun: the host's shared memory cannot be saved: --ipc=host has become --ipc=private"
    ]
    (made,) = fake.engine.jobs()
    assert {"--ipc=private", "--shm-size=1g"} < {*fake.engine.arguments(made.id)}
    record = jobs.load(fake.host.paths, "job")
    assert record
    assert record.run.options == ("-d", "--name=job", "--ipc=host", "--shm-size=1g")


def test_run_loads_nothing_that_it_does_not_need() -> None:
    """It is compared with `docker run`, and half of what it costs is what it imports."""
    heavy = "rich click msgspec podman docker boto3 spotrun.images.logfile"
    script = (
        "import sys, spotrun.cli.main; print(*(it for it in sys.argv[1:] if it in sys.modules))"
    )
    argv = [sys.executable, "-c", script, *heavy.split()]
    loaded = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert loaded.stdout == "\n"
