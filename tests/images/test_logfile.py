"""A log file in the format of Kubernetes is read as the container wrote it."""

from datetime import UTC, datetime

import pytest

from spotrun.images.logfile import Excerpt, LogLine, parse

_TIME = b"2026-12-01T10:00:00.000000000+00:00"


def _read(*lines: bytes) -> list[tuple[str, bytes]]:
    """Read lines to which the time is still to be added."""
    return [(it.stream, it.data) for it in parse([b"%s %s" % (_TIME, line) for line in lines])]


def test_full_lines_keep_their_ends() -> None:
    """Each goes to the stream it came from."""
    assert _read(b"stdout F out\n", b"stderr F err\n") == [
        ("stdout", b"out\n"),
        ("stderr", b"err\n"),
    ]


def test_spaces_and_empty_lines_are_kept() -> None:
    """Only the first three spaces separate."""
    assert _read(b"stdout F  a  b \n", b"stdout F \n") == [
        ("stdout", b" a  b \n"),
        ("stdout", b"\n"),
    ]


def test_partial_lines_are_joined() -> None:
    """A long line is written in pieces, of which only the last has an end."""
    pieces = _read(b"stdout P one, \n", b"stdout P two, \n", b"stdout F three\n")
    assert b"".join(data for _, data in pieces) == b"one, two, three\n"


def test_output_without_a_final_newline_gets_none() -> None:
    """A prompt stays on its line."""
    assert _read(b"stdout P password: \n") == [("stdout", b"password: ")]


def test_last_line_that_is_cut_off_is_left_out() -> None:
    """The engine was just writing it when the file was copied."""
    assert _read(b"stdout F whole\n", b"stdout F cut o") == [("stdout", b"whole\n")]
    assert list(parse([b"2026-12-01T10:0"])) == []


def test_bytes_that_are_no_text_are_kept() -> None:
    """A container may print anything."""
    assert list(parse([_TIME + b" stderr F \xff\xfe\n"])) == [LogLine("stderr", b"\xff\xfe\n")]


_LINES = [
    b"2026-12-01T10:00:00.999999999+00:00 stdout F one\n",
    b"2026-12-01T12:00:01.000000000+02:00 stderr F two\n",
    b"2026-12-01T10:00:02.5Z stdout P thr\n",
    b"2026-12-01T10:00:03Z stdout F ee\n",
]


def _at(second: int) -> datetime:
    return datetime(2026, 12, 1, 10, 0, second, tzinfo=UTC)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (Excerpt(tail=1), b"three\n"),
        (Excerpt(tail=2), b"two\nthree\n"),
        (Excerpt(tail=0), b""),
        (Excerpt(tail=9), b"one\ntwo\nthree\n"),
        (Excerpt(since=_at(1)), b"two\nthree\n"),
        (Excerpt(until=_at(1)), b"one\ntwo\n"),
        (Excerpt(since=_at(1), until=_at(1)), b"two\n"),
        (Excerpt(until=_at(2), tail=1), b"two\n"),
        (Excerpt(tail=1, timestamps=True), b"2026-12-01T10:00:02.5Z three\n"),
    ],
)
def test_part_of_a_log_is_what_the_engines_would_give(part: Excerpt, said: bytes) -> None:
    """A line in pieces is one line, wherever the clock of the host stood."""
    assert b"".join(line.data for line in parse(_LINES, part)) == said


def test_engines_are_asked_in_their_own_words() -> None:
    """Times are seconds since 1970."""
    part = Excerpt(since=_at(1), tail=5, timestamps=True)
    assert part.query == {"since": "1796119201.000000", "tail": "5", "timestamps": "true"}
    assert Excerpt().query == {"tail": "all", "timestamps": "false"}
