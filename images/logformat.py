r"""Log files in the formats of the engines; a snapshot's is always in that of Kubernetes.

Docker's `json-file` driver writes `{"log":"text\n","stream":"stdout","time":"…"}` a line, where
text without a newline goes on in the next one. logfile.py describes the format of Kubernetes.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final


class LogFormat(StrEnum):
    """How an engine writes a container's log."""

    KUBERNETES = "kubernetes"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file of an engine."""

    path: Path
    format: LogFormat


@dataclass(frozen=True, slots=True)
class _Entry:
    log: str
    stream: str
    time: str


_TIME: Final = re.compile(r"(?P<whole>[^.]*?)(?:\.(?P<fraction>\d+))?(?P<zone>Z|[+-]\d\d:\d\d)")
_PARTS: Final = 4
"""Of a line for Kubernetes: time, stream, tag, text."""


def copy(log: Path, target: Path) -> None:
    """Copy an engine's log with what it has rotated away: `.1` is the newest of those."""
    import gzip
    from shutil import copyfileobj

    with target.open("wb") as out:
        for part in [*_rotated(log), log]:
            with gzip.open(part) if part.suffix == ".gz" else part.open("rb") as lines:
                copyfileobj(lines, out)


def _rotated(log: Path) -> list[Path]:
    """Return the older parts of a log, oldest first; Docker's `compress` makes them `.N.gz`."""
    parts = [it for it in log.parent.iterdir() if it.name.startswith(f"{log.name}.")]
    numbered = {it: it.name.removeprefix(f"{log.name}.").removesuffix(".gz") for it in parts}
    found = [it for it in parts if numbered[it].isdecimal()]
    return sorted(found, key=lambda it: int(numbered[it]), reverse=True)


def normalise(log: LogFile) -> None:
    """Turn the copy of an engine's log into a snapshot's, in its place."""
    if log.format is LogFormat.KUBERNETES:
        return
    beside = log.path.with_suffix(".new")
    with log.path.open("rb") as lines, beside.open("wb") as out:
        out.writelines(_from_json(lines))
    beside.rename(log.path)


def give(source: Path, target: LogFile) -> None:
    """Write the log of a snapshot as an engine's."""
    if target.format is LogFormat.KUBERNETES:
        from shutil import copyfile

        copyfile(source, target.path)
        return
    with source.open("rb") as lines, target.path.open("wb") as out:
        out.writelines(_to_json(lines))


def _from_json(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines for Kubernetes; one that is cut off is left out."""
    import msgspec

    for line in lines:
        if not line.endswith(b"\n"):
            return
        entry = msgspec.json.decode(line, type=_Entry)
        text = entry.log.encode(errors="surrogatepass")
        tag = b"F" if text.endswith(b"\n") else b"P"
        head = f"{_nine_digits(entry.time)} {entry.stream} ".encode()
        yield head + tag + b" " + text.removesuffix(b"\n") + b"\n"


def _nine_digits(time: str) -> str:
    """Return a time with as many digits as Podman wants to see; Docker drops zeros."""
    found = _TIME.fullmatch(time)
    return f"{found['whole']}.{found['fraction'] or '':0<9}{found['zone']}" if found else time


def _to_json(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines for Docker, which knows text only; one that is cut off is left out."""
    import msgspec

    for line in lines:
        fields = line.split(b" ", _PARTS - 1)
        if len(fields) == _PARTS and line.endswith(b"\n"):
            time, stream, tag, text = fields
            said = (text[:-1] if tag == b"P" else text).decode(errors="replace")
            yield msgspec.json.encode(_Entry(said, stream.decode(), time.decode())) + b"\n"
