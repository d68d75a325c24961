"""How the lab runs commands on this machine."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class LabError(Exception):
    """A command of the lab failed; the message has its output."""


def call(
    *argv: str | Path,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    check: bool = True,
    timeout: float = 600,
) -> subprocess.CompletedProcess[str]:
    """Run to the end and return its output; raise LabError with that output if it fails."""
    words = [str(word) for word in argv]
    done = subprocess.run(
        words, env=env, input=stdin, capture_output=True, text=True, timeout=timeout, check=False
    )
    if check and done.returncode != 0:
        raise LabError(failure(words, done.returncode, done.stdout + done.stderr))
    return done


def failure(argv: Sequence[str], status: int, said: str) -> str:
    """Return what a failed command said, shortened to its end."""
    return f"{' '.join(argv)[:500]}\nended with {status}:\n{said[-6000:]}"
