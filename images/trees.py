"""Directory trees as tar archives, exact: modes, owners, xattrs, links, holes, device nodes.

A container's file changes are the upper directory of its overlay, taken as it is: a deleted
file is a character device 0:0, a replaced directory carries `trusted.overlay.opaque`
(kernel documentation, filesystems/overlayfs). GNU tar keeps all of that.
"""

import shutil
from pathlib import Path

from spotrun.images.process import Runner, checked

_EXACT = ("--acls", "--xattrs", "--xattrs-include=*", "--numeric-owner")
_DIFFERS = 1
"""tar's exit status when a file has changed while it was read."""
_OF_ONE_HOST = ("origin", "impure", "nlink", "uuid", "upper", "protattr")
"""Overlay attributes that refer to inodes of the source's disk."""


def pack(runner: Runner, source: Path, archive: Path, *, changing: bool = False) -> None:
    """Write the tree under `source` to `archive`.

    In a `changing` one, somebody else may write meanwhile: then each file is as tar has found it.
    """
    excluded = [f"--xattrs-exclude=trusted.overlay.{name}" for name in _OF_ONE_HOST]
    argv = ["tar", "--create", "--format=posix", "--sparse", *_EXACT, *excluded]
    argv += ["--warning=no-file-ignored", f"--file={archive}", f"--directory={source}", "."]
    done = runner.run(argv)
    if not (changing and done.status == _DIFFERS):
        checked(done, argv)


def unpack(runner: Runner, archive: Path, target: Path) -> None:
    """Write the tree of `archive` into the existing directory `target`."""
    argv = [*unpack_command(archive), f"--directory={target}"]
    checked(runner.run(argv), argv)


def empty(folder: Path) -> None:
    """Remove all that is in a directory."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def unpack_command(archive: Path) -> list[str]:
    """Return the command that `unpack` runs, without its target."""
    head = ["tar", "--extract", "--same-permissions", "--same-owner", *_EXACT]
    return [*head, f"--file={archive}"]
