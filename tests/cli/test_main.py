"""The command line ends with the codes of `docker run`, and with one sentence when it fails."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spotrun import __version__
from spotrun.cli import opened
from spotrun.cli.group import HIDDEN, VERBS
from spotrun.runtime import jobs
from tests.cli.conftest import TALK, Cli
from tests.fakes.host import FakeHost
from tests.fakes.snapshots import manifest, publish

_SPOTRUN = str(Path(sys.executable).with_name("spotrun"))
_AS_NOBODY = """
import os, sys
import spotrun.cli.ps
from spotrun.cli.main import main
os.setuid(os.getuid() or 65534)
main(["ps"])
"""
_ROOT_NEEDED = (
    "spotrun: spotrun needs root: CRIU dumps memory and the engine runs as root\n"
    "  `spotrun doctor` lists every requirement with its fix\n"
)
_NEEDS_ROOT = (
    "ps",
    "logs job",
    "checkpoint job",
    "restore job",
    "migrate job --to ssh://b",
    "snapshots",
    "prune",
    "verify",
    "repair",
    "key list",
    "run busybox",
    "create busybox",
    "stop job",
    "wait job",
    "rm job",
    "peer settle job x",
)


@pytest.mark.parametrize("verb", [*VERBS, "peer admit", "peer take", "peer take-image"])
def test_every_verb_has_help(cli: Cli, verb: str) -> None:
    """It shows the usage, needs nothing of the host, and is no error."""
    said = cli(*verb.split(), "--help")
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith(f"Usage: spotrun {verb} ")


def test_help_lists_the_verbs_for_people(cli: Cli) -> None:
    """In the order of their table, with one line each."""
    said = cli("--help")
    listed = re.findall(r"^  (\w+) {2,}(\S.*)$", said.out.partition("Commands:")[2], re.MULTILINE)
    assert dict(listed) == {verb: what for verb, what in VERBS.items() if verb not in HIDDEN}
    assert said.status == 0


def test_verbs_describe_themselves(cli: Cli) -> None:
    """Every option of every verb says what it is for."""
    for verb in VERBS:
        options = cli(verb, "--help").out.partition("Options:")[2]
        assert not re.search(r"^  --?\S+(?: [A-Z]\S*)?$\n(?!    )", options, re.MULTILINE), verb


def test_version_is_shown(cli: Cli) -> None:
    """It is the package's."""
    assert __version__ in cli("--version").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("frobnicate", "No such command 'frobnicate'."),
        ("chekpoint job", "No such command 'chekpoint'. Did you mean 'checkpoint'?"),
        ("run --jobs=train busybox", "no such option --jobs; did you mean --job?"),
        ("run --storre x -it busybox", "no such option --storre; did you mean --store?"),
        ("notice --off --in=9s", "--off and --in: a notice is given or called off"),
        ("--bogus", "No such option '--bogus'."),
        ("ps --bogus", "No such option '--bogus'."),
        ("ps job", "Got unexpected extra argument (job)"),
        ("ps --format xml", "Invalid value for '--format': 'xml' is not one of 'table', 'json'."),
        ("checkpoint", "Missing argument 'JOB'."),
        ("migrate job", "Missing option '--to'."),
        ("migrate job --to host-b", "'host-b' is not like ssh://user@host[:port]"),
        ("logs ../etc", "'../etc' cannot be a job's name: use letters, digits, _ . -"),
        ("restore a/b", "'a/b' cannot be a job's name: use letters, digits, _ . -"),
        ("run", "no image was given: spotrun run [OPTIONS] IMAGE [COMMAND …]"),
        ("run --rm", "no image was given: spotrun run [OPTIONS] IMAGE [COMMAND …]"),
        ("run --name", "option --name needs a value"),
        ("run -v", "option --volume needs a value"),
        ("run --name -x/y busybox", "'-x/y' cannot be a job's name: use letters, digits, _ . -"),
        (
            "run --format json busybox",
            "--format json needs --detach: the output is the container's",
        ),
    ],
)
def test_senseless_command_line_is_one_sentence(cli: Cli, words: str, said: str) -> None:
    """Exit code 125, as docker's; nothing on stdout unless a program asked for JSON."""
    ended = cli(*words.split())
    assert ended.status == 125
    if "--format json" in words:
        assert ended.envelope["errors"][0]["message"] == said
    else:
        assert ended.out == ""
        verb = words.split(maxsplit=1)[0]
        called = f" {verb}" if verb in VERBS else ""
        assert ended.err == f"spotrun: {said}\n  see `spotrun{called} --help`\n"


@pytest.mark.parametrize("words", _NEEDS_ROOT)
def test_verb_without_root_is_one_sentence(
    cli: Cli, fake: FakeHost, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written before that."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    before = sorted(fake.host.paths.state.rglob("*"))
    said = cli(*words.split())
    assert (said.status, said.out, said.err) == (125, "", _ROOT_NEEDED)
    assert sorted(fake.host.paths.state.rglob("*")) == before


def test_real_process_without_root_is_one_sentence() -> None:
    """No traceback, whatever the host lacks."""
    argv = [sys.executable, "-c", _AS_NOBODY]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (125, "", _ROOT_NEEDED)


def test_installed_command_runs() -> None:
    """The entry point leads to the command line."""
    done = subprocess.run([_SPOTRUN, "frobnicate"], check=False, capture_output=True, text=True)
    assert done.returncode == 125
    assert done.stderr.startswith("spotrun: No such command 'frobnicate'.\n")


def test_closed_pipe_is_no_traceback() -> None:
    """`spotrun doctor | head -n 1` is silent about what head did not want."""
    reader, writer = os.pipe()
    os.close(reader)
    argv = [_SPOTRUN, "snapshots", "--bogus", "--format", "json"]
    done = subprocess.run(argv, check=False, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (125, b"")


def test_folder_that_cannot_be_made_is_one_sentence(cli: Cli, fake: FakeHost) -> None:
    """What the kernel refuses is spotrun's own error, too."""
    journal = fake.host.paths.journal
    journal.rmdir()
    journal.write_text("no folder")
    said = cli("ps")
    assert (said.status, said.out) == (125, "")
    assert re.fullmatch(rf"spotrun: .*File exists: '{journal}'\n", said.err)


@pytest.mark.parametrize(
    "stop",
    [lambda: os.kill(os.getpid(), signal.SIGTERM), lambda: signal.raise_signal(signal.SIGINT)],
)
def test_interrupt_is_130(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, stop: Callable[[], object]
) -> None:
    """Ctrl-C and SIGTERM alike."""
    monkeypatch.setattr(opened, "this_host", stop)
    said = cli("ps")
    assert (said.status, said.out, said.err) == (130, "", "spotrun: interrupted\n")


@pytest.mark.parametrize(
    ("words", "status"),
    [(("--rm", "{}", *TALK), 7), (("localhost/absent:1",), 125)],
    ids=["own", "no-image"],
)
def test_run_ends_with_the_status_of_the_container(
    cli: Cli, fake: FakeHost, words: tuple[str, ...], status: int
) -> None:
    """The engine's own codes are passed on, and spotrun says nothing of its own."""
    image = fake.engine.add_image("localhost/busybox:1", b"layer").name
    said = cli("run", *(word.format(image) for word in words))
    assert (said.status, said.out, said.err) == (status, "", "")


def test_run_of_a_job_that_was_moved_away_ends_with_85(
    cli: Cli, fake: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for it starts it elsewhere, or learns where it is."""
    image = fake.engine.add_image("localhost/busybox:1", b"layer").name

    def taken_away(*_: object, **__: object) -> int:
        here = jobs.Job("job", manifest().run, fake.host.own_store)
        parent = "20261201T110000Z-00000b"
        jobs.save(fake.host.paths, replace(here, place=jobs.Place.STORED, parent=parent))
        return 137

    monkeypatch.setattr(fake.engine.__class__, "command", taken_away)
    said = cli("run", "--name", "job", image)
    assert said.status == 85
    assert said.err == (
        "spotrun: job 'job' is stored as 20261201T110000Z-00000b: `spotrun restore job` goes on"
        " with it\n"
    )


def test_output_of_a_job_goes_where_the_job_wrote_it(cli: Cli, fake: FakeHost) -> None:
    """Both streams are apart."""
    image = fake.engine.add_image("localhost/busybox:1", b"layer").name
    cli("run", "--name", "job", image, *TALK)
    said = cli("logs", "job")
    assert (said.status, said.out, said.err) == (0, "out\n", "err\n")


def test_snapshots_are_shown_to_people_as_a_table(cli: Cli, fake: FakeHost) -> None:
    """Lines are not cut off where no terminal cuts them."""
    made = publish(fake.host.store(), job="j" * 100)
    head, row = cli("snapshots").out.splitlines()
    assert head.split() == ["SNAPSHOT", "JOB", "KIND", "EPOCH", "HOST", "SIZE", "PARENT"]
    assert row.split() == [made.snapshot, "j" * 100, "live", "0", "host-a", "12", "B"]


def test_doctor_shows_every_fault_with_its_fix(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is that of spotrun's own errors."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    said = cli("doctor")
    assert said.status == 125
    row = next(line for line in said.out.splitlines() if line.startswith("no"))
    assert (
        row.split()
        == "no root user id 1000 is not root run spotrun as root, e.g. with sudo".split()
    )
