"""What CRIU says went wrong is found in its log."""

from pathlib import Path

import pytest

from spotrun.runtime import criu

_LOG = """\
(00.000000) Version: 4.2.1 (gitid 0)
(00.001111) Warn  (compel/arch/x86/src/lib/infect.c:281): Will restore 41 with interrupted call
(00.001300) Error (criu/util.c:1534): rlimit: Can't setup RLIMIT_NOFILE for self: Not permitted
(00.002222) Error (criu/sk-inet.c:190): inet: Connected TCP socket, consider using --tcp-established
(00.003333) Error (criu/files-ext.c:94): Can't dump file 5 of that type [140777]
(00.004444) Error (criu/cr-dump.c:2128): Dumping FAILED.
"""


def test_first_error_is_the_cause(tmp_path: Path) -> None:
    """The later ones only say that it failed; warnings and what CRIU goes on after do not count."""
    (tmp_path / "dump.log").write_text(_LOG)
    said = "inet: Connected TCP socket, consider using --tcp-established"
    assert criu.cause(tmp_path / "dump.log") == said


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("fsnotify: \tCan't dump that handle", "it watches files (inotify), "),
        ("Unable to convert uid or gid", "a process of it is in a user namespace of its own: "),
        ("Can't lookup mount=93 for fd=0 path=/null", "a process of it is in a mount namespace "),
    ],
)
def test_words_of_criu_that_say_little_are_told_with_what_they_mean(
    tmp_path: Path, what: str, told: str
) -> None:
    """Its own words are what there is to be looked for."""
    (tmp_path / "dump.log").write_text(f"(00.1) Error (criu/some.c:1): {what}\n")
    said = criu.cause(tmp_path / "dump.log")
    assert said
    assert said.startswith(told)
    assert said.endswith(f": {what}")


@pytest.mark.parametrize("text", ["", "(00.1) Dumping finished successfully\n", "Error without"])
def test_log_without_an_error_has_no_cause(tmp_path: Path, text: str) -> None:
    """The caller has to say it in other words."""
    (tmp_path / "dump.log").write_text(text)
    assert criu.cause(tmp_path / "dump.log") is None


def test_missing_log_has_no_cause(tmp_path: Path) -> None:
    """CRIU may not have come so far as to write one."""
    assert criu.cause(tmp_path / "dump.log") is None


def test_log_with_bytes_that_are_no_text_is_read(tmp_path: Path) -> None:
    """File names in it may be anything."""
    raw = b"(00.1) Error (criu/files-reg.c:1): Can't open \xff\xfe\n"
    (tmp_path / "dump.log").write_bytes(raw)
    assert criu.cause(tmp_path / "dump.log") == "Can't open \ufffd\ufffd"


def test_every_option_is_explained() -> None:
    """The table beside the configuration has a reason for each of its lines, and no more."""
    source = Path(criu.__file__).read_text()
    table = source.partition("each with its reason:")[2].partition('"""')[0]
    reasons = [line.split()[0] for line in table.splitlines() if line.strip()]
    given = [line.partition("=")[0] for line in criu.config().splitlines() if line[0] != "#"]
    assert reasons == given
