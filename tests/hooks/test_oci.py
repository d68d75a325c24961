"""The hooks do what they must with what engines give them, and never keep a container back."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from spotrun.hooks import oci

_STATE = {
    "ociVersion": "1.2.0",
    "id": "b655",
    "status": "creating",
    "annotations": {"io.spotrun.job": "train", "other": "1"},
}


def _hook(name: str, folder: Path, stdin: str) -> subprocess.CompletedProcess[str]:
    """Call a hook as an OCI runtime does: with its own environment only."""
    definition = json.loads(oci.definitions(folder, folder)[name])
    hook = definition["hook"]
    env = dict(line.split("=") for line in hook["env"])
    argv = ["/bin/sh", *hook["args"][1:]]
    return subprocess.run(argv, input=stdin, env=env, capture_output=True, text=True, check=False)


def _note(folder: Path, stdin: str) -> int:
    return _hook("50-spotrun.json", folder, stdin).returncode


def _criu(folder: Path, document: dict[str, Any]) -> Any:  # noqa: ANN401 # any JSON
    done = _hook("50-spotrun-criu.json", folder, json.dumps(document, separators=(",", ":")))
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_hooks_are_for_annotated_containers_only() -> None:
    """Each at its own stage; the pattern names the annotation and nothing like it."""
    definitions = oci.definitions(Path("/notes"), Path("/criu"))
    found = {name: json.loads(it) for name, it in definitions.items()}
    assert {name: it["stages"] for name, it in found.items()} == {
        "50-spotrun.json": ["createRuntime"],
        "50-spotrun-criu.json": ["precreate"],
    }
    for it in found.values():
        assert it["version"] == "1.0.0"
        assert it["when"] == {"annotations": {"^io[.]spotrun[.]job$": "."}}


def test_note_is_what_the_hook_is_told(tmp_path: Path) -> None:
    """Whoever started the container, and however often."""
    folder = tmp_path / "run" / "adopt"
    for container in ("b655", "c766"):
        assert _note(folder, json.dumps({**_STATE, "id": container})) == 0
    found = oci.notes(folder)
    assert sorted(it.container for it in found) == ["b655", "c766"]
    assert {it.job for it in found} == {"train"}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(it.path.stat().st_mode & 0o777 == 0o600 for it in found)


def test_container_starts_also_where_no_note_can_be_left(tmp_path: Path) -> None:
    """The folder cannot be made: a file is in its way."""
    (tmp_path / "file").touch()
    assert _note(tmp_path / "file" / "adopt", json.dumps(_STATE)) == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 1, "annotations": {}}', '{"id": "x"}'])
def test_note_that_makes_no_sense_is_dropped(tmp_path: Path, text: str) -> None:
    """It would do so for ever."""
    (tmp_path / "note.x.json").write_text(text)
    (tmp_path / "note.half").write_text("{")
    assert oci.notes(tmp_path) == []
    assert [it.name for it in tmp_path.iterdir()] == ["note.half"]


def test_there_are_no_notes_without_a_folder(tmp_path: Path) -> None:
    """No container has been noted since the host was started."""
    assert oci.notes(tmp_path / "absent") == []


def test_note_of_no_container_does_not_stay_and_a_folder_is_no_note(tmp_path: Path) -> None:
    """Neither may be in the way of the others for ever."""
    (tmp_path / "note.a.json").write_text('{"id": "", "annotations": {"io.spotrun.job": "a"}}')
    (tmp_path / "note.b.json").mkdir()
    assert oci.notes(tmp_path) == []
    assert [it.name for it in tmp_path.iterdir()] == ["note.b.json"]


def test_runc_is_told_where_the_configuration_of_criu_is() -> None:
    """By an annotation beside the job's; all else of the specification is as it was."""
    told = {"org.criu.config": "/criu/train-1.b.conf"}
    tricky = 'a "io.spotrun.job":"no" b\\'
    annotations = {"io.spotrun.job": "train-1.b", "x": tricky}
    document = {"process": {"env": [f"A={tricky}"], "args": [tricky]}, "linux": {}}
    found = _criu(Path("/criu"), {**document, "annotations": annotations})
    assert found == {**document, "annotations": {**annotations, **told}}


@pytest.mark.parametrize("job", ["a/b", "", ".hidden", 'quo"te', "a#b"])
def test_name_that_cannot_be_a_jobs_changes_nothing(job: str) -> None:
    """The container starts, and is none."""
    document = {"annotations": {"io.spotrun.job": job}}
    assert _criu(Path("/criu"), document) == document
