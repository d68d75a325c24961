"""Command lines of `docker run` as READMEs and manuals of well-known images have them.

In `command_lines.txt`, one a line, the image is in braces, and `~`, `$HOME` and `$PWD` are what a
shell puts in.
"""

import re
import shlex
from pathlib import Path
from typing import Final

LINES: Final = Path(__file__).with_suffix(".txt").read_text().splitlines()


def words(line: str, folder: str) -> tuple[list[str], int]:
    """Split a line as a shell does whose home is that folder; return the image's place, too."""
    found = shlex.split(re.sub(r"~(?=/)|\$HOME|\$PWD", folder, line))
    (at,) = [number for number, word in enumerate(found) if re.fullmatch(r"\{.+\}", word)]
    return [*found[:at], found[at][1:-1], *found[at + 1 :]], at
