"""`push`, `pull`, `export` and `import` on the command line."""

import time
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.fakes.host import FakeHost
from tests.fakes.snapshots import publish


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "push oci://registry.example.com/a:1",
            "name a job or a snapshot, and oci://REGISTRY/REPOSITORY:TAG",
        ),
        ("push train --store /x", "name a job or a snapshot, and oci://REGISTRY/REPOSITORY:TAG"),
        ("push --plain-http", "name a job or a snapshot, and oci://REGISTRY/REPOSITORY:TAG"),
        ("push train a:1", "'a:1' is not like oci://registry.example.com/repository:tag"),
        ("push a/b oci://r/a:1", "'a/b' cannot be a job's name: use letters, digits, _ . -"),
        ("pull a:1", "'a:1' is not like oci://registry.example.com/repository:tag"),
        ("pull", "Missing argument 'oci://REGISTRY/REPOSITORY:TAG'."),
        ("export train", "Missing argument 'FILE'."),
        ("export train /nowhere/x.tar", "/nowhere is no folder"),
        ("import /nowhere/x.tar", "/nowhere/x.tar is no file"),
    ],
)
def test_senseless_command_line_is_one_sentence(cli: Cli, words: str, said: str) -> None:
    """Exit code 125, and what to do."""
    ended = cli(*words.split())
    assert (ended.status, ended.out) == (125, "")
    assert ended.err.startswith(f"spotrun: {said}\n")


@pytest.mark.parametrize("verb", ["push {} oci://localhost:1/a:1", "export {} {folder}/x.tar"])
@pytest.mark.parametrize("which", ["train", "20261201T100000Z-00000a"])
def test_missing_snapshot_is_named(cli: Cli, tmp_path: Path, verb: str, which: str) -> None:
    """By job or by id."""
    words = verb.format(which, folder=tmp_path).split()
    error = cli(*words, "--format", "json").envelope["errors"][0]
    assert error["code"] == "SnapshotNotFound"
    assert which in error["message"]


def test_registry_that_is_not_there_is_told(
    cli: Cli, fake: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an error of the registry, after the snapshot was found."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    saved = publish(fake.host.store())
    for which in (saved.job, saved.snapshot):
        said = cli("push", which, "oci://localhost:1/a:1", "--format", "json")
        assert said.status == 125
        assert said.envelope["errors"][0]["code"] == "RegistryUnavailable"
    assert list(fake.host.paths.scratch.iterdir()) == []


def test_push_without_a_registry_sends_what_waits(cli: Cli) -> None:
    """Nothing waits here."""
    assert cli("push", "--format", "json").envelope["data"] == []


def test_format_of_the_archive_and_of_the_result_are_two_things(cli: Cli, tmp_path: Path) -> None:
    """Both are named by --format."""
    words = ["export", "train", str(tmp_path / "x.tar"), "--format", "cri", "--format", "json"]
    assert cli(*words).envelope["command"] == "export"
    assert cli(*words[:-2]).out == ""
    assert "Invalid value for '--format'" in cli("export", "a", "b", "--format", "oci").err
