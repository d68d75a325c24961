"""A log file in the format of Kubernetes is read as the container wrote it."""

from spotrun.images.logfile import LogLine, parse

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
