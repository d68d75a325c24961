"""The OCI hook by which a container that spotrun did not start becomes a job.

The hook leaves a note, and the next spotrun takes the container on. A note is a file
`note.*.json` in a folder of root alone, written under another name and then renamed. It holds a
JSON object with at least

    {"id": "the container's id", "annotations": {"io.spotrun.job": "the job's name"}}

which the state that OCI runtimes give to hooks is already, so the hook only copies its stdin. An
engine without a folder for hooks (Docker) calls spotrun's OCI runtime, which writes the same on
`create` from the arguments of the call and the annotations in the bundle's `config.json`.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

JOB_ANNOTATION: Final = "io.spotrun.job"
"""Its value is the name of the job that a container is to be."""
_NAME: Final = "[a-zA-Z0-9][a-zA-Z0-9_.-]*"
_LEAVE_A_NOTE: Final = (
    'umask 077; mkdir -p "$1" && note=$(mktemp "$1/note.XXXXXXXXXX")'
    ' && cat >"$note" && mv "$note" "$note.json"; exit 0'
)
"""Whatever happens to the note, the container starts."""
_CONFIGURE_CRIU: Final = (
    f'exec sed -E "s#\\"{JOB_ANNOTATION.replace(".", "[.]")}\\":\\"({_NAME})\\"'
    '#&,\\"org.criu.config\\":\\"$1/\\\\1.conf\\"#"'
)
"""In a value of the document the quotes would be escaped, so only the annotation itself fits."""


@dataclass(frozen=True, slots=True)
class Note:
    """What the hook says: that container is to be that job."""

    path: Path
    container: str
    """Its id."""
    job: str


def definitions(notes: Path, criu: Path) -> dict[str, bytes]:
    """Return what stands in an engine's folder of hooks, by file (oci-hooks(5), schema 1.0.0).

    One leaves the note. The other lets runc find the job's configuration of CRIU in the folder
    `criu`, as it does for the containers that spotrun starts. The shell is all they need, so they
    do no harm where spotrun itself is gone or broken.
    """
    return {
        "50-spotrun.json": _definition("createRuntime", _LEAVE_A_NOTE, notes),
        "50-spotrun-criu.json": _definition("precreate", _CONFIGURE_CRIU, criu),
    }


def _definition(stage: str, script: str, folder: Path) -> bytes:
    document = {
        "version": "1.0.0",
        "hook": {
            "path": "/bin/sh",
            "args": ["spotrun-hook", "-c", script, "spotrun-hook", str(folder)],
            "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
        },
        "when": {"annotations": {f"^{JOB_ANNOTATION.replace('.', '[.]')}$": "."}},
        "stages": [stage],
    }
    return json.dumps(document, indent=2).encode() + b"\n"


def notes(folder: Path) -> list[Note]:
    """Return all notes that make sense; the others are removed."""
    found = []
    for path in sorted(folder.glob("note.*.json")):
        try:
            state = msgspec.json.decode(path.read_bytes(), type=_State)
        except OSError:  # another spotrun has dealt with it, or it is no file
            continue
        except msgspec.MsgspecError:
            path.unlink(missing_ok=True)
            continue
        if not state.id:
            path.unlink(missing_ok=True)
            continue
        found.append(Note(path, state.id, state.annotations.get(JOB_ANNOTATION, "")))
    return found


class _State(msgspec.Struct):
    id: str
    annotations: dict[str, str]
