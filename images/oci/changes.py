"""An overlay's upper directory as engines export it: changed files, and a list of deleted ones."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spotrun.images.oci.layer import is_opaque, is_whiteout
from spotrun.images.process import Runner, checked

_ENGINES_OWN: Final = frozenset(
    "dev etc/hostname etc/hosts etc/mtab etc/resolv.conf proc run run/.containerenv run/notify"
    " run/podman-init run/secrets sys".split()
)
"""Places that every engine makes or mounts over; what lies below is the container's."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a container has changed in its image."""

    written: list[str]
    """Added and changed files and folders, relative to the root; folders come first."""
    deleted: list[str]
    """Absolute paths that are there no more, each but the topmost one left out."""


def of(upper: Path, lower: Path) -> Changes:
    """Compare an upper directory with what lies below it; `lower` is asked about what is opaque."""
    changes = Changes([], [])
    _walk(upper, lower, "", changes, opaque=False)
    return changes


def pack(runner: Runner, upper: Path, written: list[str], archive: Path) -> None:
    """Write the changed files as an archive."""
    names = archive.with_suffix(".names")
    names.write_bytes(b"".join(os.fsencode(name) + b"\0" for name in written))
    argv = ["tar", "--create", "--format=posix", "--sparse", "--acls", "--numeric-owner"]
    argv += ["--xattrs", "--xattrs-include=*", "--xattrs-exclude=trusted.overlay.*"]
    argv += [f"--file={archive}", f"--directory={upper}", "--no-recursion", "--null"]
    argv += ["--verbatim-files-from", f"--files-from={names}"]
    checked(runner.run(argv), argv)
    names.unlink()


def _walk(folder: Path, below: Path | None, prefix: str, changes: Changes, *, opaque: bool) -> None:
    """Look at one folder; below an opaque one, everything of the image that is not here is gone."""
    opaque = opaque or is_opaque(folder)
    entries = {entry.name: entry.stat(follow_symlinks=False) for entry in os.scandir(folder)}
    if opaque and below:
        gone = {path.name for path in below.iterdir()} - set(entries)
        changes.deleted.extend(f"/{prefix}{name}" for name in sorted(gone))
    for name, found in sorted(entries.items()):
        if is_whiteout(found):
            changes.deleted.append(f"/{prefix}{name}")
            continue
        if prefix + name not in _ENGINES_OWN:
            changes.written.append(prefix + name)
        if stat.S_ISDIR(found.st_mode):
            deeper = below / name if below else None
            real = deeper if deeper and not deeper.is_symlink() and deeper.is_dir() else None
            _walk(folder / name, real, f"{prefix}{name}/", changes, opaque=opaque)
