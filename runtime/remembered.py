"""What programs say of themselves: asked once, and again when their files have changed."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from spotrun.images.durable import write_json
from spotrun.images.errors import NoRoom
from spotrun.images.process import Completed, SystemRunner, program

_QUESTIONS: Final = {
    "criu": ("--version",),
    "runc": ("--version",),
    "tar": ("--version",),
    "ssh": ("-V",),
    "podman": ("version", "--format", "{{.Client.Version}}"),
}
"""By program, what no daemon and no configuration has a say in."""


class Remembering(SystemRunner):
    """Real child processes, but for questions that were answered since the host was booted."""

    def __init__(self, folder: Path) -> None:
        """Keep the answers in that folder, which need not be there."""
        super().__init__()
        self._folder = folder

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
        pass_fds: Sequence[int] = (),
        cwd: Path | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """Look the answer up, or run the child."""
        file = _file(argv[0]) if _QUESTIONS.get(argv[0]) == tuple(argv[1:]) else None
        if file is None:
            return super().run(
                argv, stdin=stdin, stdout=stdout, pass_fds=pass_fds, cwd=cwd, timeout=timeout
            )
        kept = self._folder / argv[0]
        with suppress(OSError, ValueError, KeyError, TypeError):  # also where it is cut off
            known = json.loads(kept.read_bytes())
            if known["file"] == file:
                return Completed(0, known["stdout"], known["stderr"])
        done = super().run(argv, timeout=timeout)
        if done.status == 0:
            with suppress(OSError, NoRoom):  # who is not root may ask, too
                write_json(kept, {"file": file, "stdout": done.stdout, "stderr": done.stderr})
        return done


def _file(name: str) -> list[str | int] | None:
    """Return real path, inode, size and time of the last change of a program, if there is one."""
    found = program(name)
    if found is None:
        return None
    real = os.path.realpath(found)
    info = Path(real).stat()
    return [real, info.st_ino, info.st_size, info.st_mtime_ns]
