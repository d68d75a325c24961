"""What runc and CRIU say becomes one sentence."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from spotrun.images.errors import OciError
from spotrun.images.process import Completed
from spotrun.runtime import criu
from spotrun.runtime.oci import DumpOptions
from spotrun.runtime.runc import Runc
from tests.fakes.runner import ScriptedRunner

_ROOT = ("runc", "--root", "/run/runc")
_STATE = (*_ROOT, "state", "it")
_PS = (*_ROOT, "ps", "--format", "json", "it")
_PAUSE, _RESUME = (*_ROOT, "pause", "it"), (*_ROOT, "resume", "it")
_SAID = 'time="2026-12-01T10:00:00Z" level=error msg="container does not exist"\n'
_GONE = Completed(1, stderr=_SAID)


def _in_state(status: str) -> Completed:
    return Completed(0, json.dumps({"ociVersion": "1.2.0", "id": "it", "status": status}))


def _runc(script: dict[tuple[str, ...], Completed]) -> tuple[Runc, ScriptedRunner]:
    runner = ScriptedRunner(script)
    return Runc(runner, root=Path("/run/runc")), runner


def _options(folder: Path) -> DumpOptions:
    (folder / "work").mkdir()
    return DumpOptions(folder / "images", folder / "work", folder / "criu.conf")


def _checkpoint(options: DumpOptions) -> tuple[str, ...]:
    """Return the command line of a dump."""
    paths = ("--image-path", str(options.images), "--work-path", str(options.work))
    return (*_ROOT, "checkpoint", "--leave-running", *paths, "it")


@pytest.mark.parametrize("status", ["created", "running", "paused", "stopped"])
def test_status_is_runcs_own_word(status: str) -> None:
    """Nothing is made of it."""
    assert _runc({_STATE: _in_state(status)})[0].status("it") == status


def test_unknown_container_has_no_status() -> None:
    """It may have been deleted in the meantime."""
    assert _runc({_STATE: _GONE})[0].status("it") is None


def test_version_is_that_of_the_program() -> None:
    """Without the suffix of a distribution."""
    said = Completed(0, "runc version 1.1.15+ds1\ncommit: 1\n")
    assert _runc({("runc", "--version"): said})[0].version() == "runc 1.1.15"


def test_version_of_a_missing_runc_is_an_error() -> None:
    """It is not called `None`."""
    missing = Completed(127, stderr="runc: No such file or directory")
    with pytest.raises(OciError):
        _runc({("runc", "--version"): missing})[0].version()


@pytest.mark.parametrize(
    ("act", "call"), [(Runc.freeze, _PAUSE), (Runc.thaw, _RESUME)], ids=["freeze", "thaw"]
)
def test_what_changes_a_container_is_one_call(
    act: Callable[[Runc, str], None], call: tuple[str, ...]
) -> None:
    """While it is frozen, each one costs the job time."""
    runc, runner = _runc({call: Completed(0)})
    act(runc, "it")
    assert runner.calls == [call]


@pytest.mark.parametrize(
    ("act", "call", "state"),
    [
        (Runc.freeze, _PAUSE, _in_state("paused")),
        (Runc.thaw, _RESUME, _in_state("running")),
        (Runc.thaw, _RESUME, _in_state("stopped")),
        (Runc.thaw, _RESUME, _GONE),
    ],
    ids=["frozen", "running", "stopped", "gone"],
)
def test_refusal_to_change_what_need_not_change_is_no_error(
    act: Callable[[Runc, str], None], call: tuple[str, ...], state: Completed
) -> None:
    """It refuses to freeze twice and to thaw what runs."""
    runc, runner = _runc({call: Completed(1, stderr=_SAID), _STATE: state})
    act(runc, "it")
    assert runner.calls == [call, _STATE]


@pytest.mark.parametrize(
    ("act", "call", "state"),
    [
        (Runc.freeze, _PAUSE, _in_state("running")),
        (Runc.thaw, _RESUME, _in_state("paused")),
    ],
    ids=["freeze", "thaw"],
)
def test_container_that_stays_as_it_is_is_told(
    act: Callable[[Runc, str], None], call: tuple[str, ...], state: Completed
) -> None:
    """With runc's reason."""
    runc, _ = _runc({call: Completed(1, stderr=_SAID), _STATE: state})
    with pytest.raises(OciError, match=r"ing failed: container does not exist$"):
        act(runc, "it")


def test_refusal_is_one_sentence_with_runcs_reason() -> None:
    """Time, level and quotes of its log line are left out."""
    with pytest.raises(OciError) as refused:
        _runc({_STATE: _GONE, _PAUSE: _GONE})[0].freeze("it")
    assert str(refused.value) == "freezing failed: container does not exist"


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (f"earlier\n{_SAID}", "container does not exist"),
        ("runc: command not found\n", "runc: command not found"),
        ('level=error msg="no \\"it\\" here"\n', 'no "it" here'),
        ('level=error msg="it failed" error="deep"\n', "it failed"),
        ("", "it said nothing"),
    ],
    ids=["log-line", "plain", "quotes", "more-fields", "nothing"],
)
def test_reason_is_the_message_of_the_last_line(stderr: str, reason: str) -> None:
    """In whatever form runc wrote it."""
    with pytest.raises(OciError) as refused:
        _runc({_PS: Completed(1, stderr=stderr)})[0].processes("it")
    assert refused.value.fields["reason"] == reason


@pytest.mark.parametrize(("said", "pids"), [("[41,7]", [41, 7]), ("null", []), ("[]", [])])
def test_processes_are_those_of_the_cgroup(said: str, pids: list[int]) -> None:
    """A container without any has an empty list."""
    assert _runc({_PS: Completed(0, said)})[0].processes("it") == pids


def test_dump_writes_the_criu_options_the_container_is_to_find(tmp_path: Path) -> None:
    """They lie where its annotation says before CRIU looks."""
    options = _options(tmp_path)
    runc, runner = _runc({_checkpoint(options): Completed(0)})
    runc.dump("it", options)
    assert runner.calls == [_checkpoint(options)]
    assert options.criu_config.read_text() == criu.config(options.external)


def test_failed_dump_gives_criu_the_word(tmp_path: Path) -> None:
    """Runc only says that CRIU failed; the log is named."""
    options = _options(tmp_path)
    log = options.work / "dump.log"
    log.write_text("(00.1) Error (criu/cr-dump.c:1): Can't seize 7\n(00.2) Error (criu/x.c:2): x\n")
    said = 'time="x" level=error msg="criu failed: type NOTIFY errno 0\\nlog file: /w/dump.log"\n'
    runc, _ = _runc({_checkpoint(options): Completed(1, stderr=said)})
    with pytest.raises(OciError) as failed:
        runc.dump("it", options)
    assert str(failed.value) == "dumping the processes failed: Can't seize 7"
    assert failed.value.log == log


@pytest.mark.parametrize(
    ("done", "reason"),
    [(_GONE, "container does not exist"), (Completed(-9), "it said nothing")],
    ids=["refused", "killed"],
)
def test_dump_that_fails_before_criu_starts_gives_runc_the_word(
    tmp_path: Path, done: Completed, reason: str
) -> None:
    """There is no CRIU log then, but there is always a reason."""
    options = _options(tmp_path)
    runc, _ = _runc({_checkpoint(options): done})
    with pytest.raises(OciError) as failed:
        runc.dump("it", options)
    assert failed.value.fields["reason"] == reason
