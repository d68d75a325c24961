"""A log goes from one engine's format to the other's and back, and nothing of it is lost."""

import gzip
import json
from pathlib import Path

import pytest

from spotrun.images.logformat import LogFile, LogFormat, copy, give, normalise

_LINES = (
    b"2026-12-01T10:00:00.000000001+02:00 stdout F one\n"
    b"2026-12-01T08:00:00.100000000Z stderr P half a \n"
    b"2026-12-01T08:00:01.000000000Z stderr F line\n"
    b"2026-12-01T08:00:02.500000000Z stdout F \n"
)


def _there_and_back(folder: Path, text: bytes) -> bytes:
    source, log = folder / "source", LogFile(folder / "log", LogFormat.JSON)
    source.write_bytes(text)
    give(source, log)
    normalise(log)
    return log.path.read_bytes()


def test_log_goes_to_docker_and_back(tmp_path: Path) -> None:
    """Streams, times with their zone, empty lines and parts of lines are kept."""
    assert _there_and_back(tmp_path, _LINES) == _LINES


def test_docker_reads_objects_a_line(tmp_path: Path) -> None:
    """The part of a line has no newline."""
    source, log = tmp_path / "source", LogFile(tmp_path / "log", LogFormat.JSON)
    source.write_bytes(_LINES)
    give(source, log)
    entries = [json.loads(line) for line in log.path.read_bytes().splitlines()]
    assert [it["log"] for it in entries] == ["one\n", "half a ", "line\n", "\n"]
    assert [it["stream"] for it in entries] == ["stdout", "stderr", "stderr", "stdout"]
    assert entries[0]["time"] == "2026-12-01T10:00:00.000000001+02:00"


@pytest.mark.parametrize(
    ("dropped", "full"),
    [("10:00:00.5Z", "10:00:00.500000000Z"), ("10:00:00Z", "10:00:00.000000000Z")],
)
def test_times_get_the_zeros_that_docker_drops(tmp_path: Path, dropped: str, full: str) -> None:
    """Podman shows no line whose time has fewer than nine digits."""
    log = LogFile(tmp_path / "log", LogFormat.JSON)
    log.path.write_text(
        json.dumps({"log": "x\n", "stream": "stdout", "time": f"2026-12-01T{dropped}"})
    )
    with log.path.open("a") as file:
        file.write("\n")
    normalise(log)
    assert log.path.read_text() == f"2026-12-01T{full} stdout F x\n"


def test_text_that_is_none_is_marked_for_docker(tmp_path: Path) -> None:
    """Docker's logs are JSON, which has no other bytes."""
    back = _there_and_back(tmp_path, b"2026-12-01T10:00:00.000000000Z stdout F \xff!\n")
    assert back.endswith("\N{REPLACEMENT CHARACTER}!\n".encode())


@pytest.mark.parametrize("format_", LogFormat)
def test_line_that_is_cut_off_is_left_out(tmp_path: Path, format_: LogFormat) -> None:
    """The engine was just writing it when the file was copied."""
    whole = {
        LogFormat.KUBERNETES: b"2026-12-01T10:00:00.000000000Z stdout F one\n",
        LogFormat.JSON: b'{"log":"one\\n","stream":"stdout","time":"2026-12-01T10:00:00Z"}\n',
    }[format_]
    log, target = LogFile(tmp_path / "log", format_), LogFile(tmp_path / "to", LogFormat.JSON)
    log.path.write_bytes(whole + whole[:20])
    normalise(log)
    give(log.path, target)
    assert [json.loads(line)["log"] for line in target.path.read_bytes().splitlines()] == ["one\n"]


def test_what_was_rotated_away_is_part_of_the_log(tmp_path: Path) -> None:
    """Oldest first, packed or not; other files beside it are none of it."""
    log = tmp_path / "c-json.log"
    log.write_bytes(b"newest\n")
    (tmp_path / "c-json.log.1").write_bytes(b"new\n")
    (tmp_path / "c-json.log.2.gz").write_bytes(gzip.compress(b"old\n"))
    (tmp_path / "c-json.log.10").write_bytes(b"oldest\n")
    (tmp_path / "c-json.log.bak").write_bytes(b"other\n")
    copy(log, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"oldest\nold\nnew\nnewest\n"
