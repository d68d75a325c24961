"""Another host is reached by ssh, and whatever goes wrong is a sentence."""

import json
import shlex
import subprocess
from collections.abc import Callable, Mapping

import pytest

from spotrun.images.errors import TargetUnreachable, UsageError
from spotrun.images.process import Completed
from spotrun.runtime.remote import Remote
from tests.fakes.runner import ScriptedRunner

_URL = "ssh://root@host-b"
_PACK = ("tar", "--create", ".")
_YES = json.dumps({"status": "success", "data": {"running": True}, "errors": []})

Script = Mapping[tuple[str, ...], Completed]


def _told(written: int) -> None:
    """Take no note of what is written."""


class AnyCommand(ScriptedRunner):
    """Answers every command line alike, but those of its script."""

    def __init__(self, done: Completed, script: Script | None = None) -> None:
        """Answer with `done`."""
        super().__init__(script or {})
        self._done = done

    def _answer(self, argv: object) -> Completed:
        call = tuple(map(str, argv)) if isinstance(argv, list | tuple) else ()
        self.calls.append(call)
        return self._script.get(call, self._done)


def _ssh(url: str, *arguments: str) -> list[str]:
    """Return the command line that reaches a host, which says yes."""
    runner = AnyCommand(Completed(0, _YES))
    assert Remote(runner, url).call(*arguments).data == {"running": True}
    (call,) = runner.calls
    return list(call)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host-b",
        "root@host-b",
        "http://host-b",
        "ssh://",
        "ssh://root@",
        "ssh:///path",
        "ssh://host-b/path",
        "ssh://host-b:port",
        "ssh://host-b:99999",
        "ssh://[::1",
    ],
)
def test_address_of_another_form_is_refused_at_once(url: str) -> None:
    """Nothing is sent, and the right form is shown."""
    with pytest.raises(UsageError, match=r" is not like ssh://user@host\[:port\]$"):
        Remote(ScriptedRunner({}), url)


@pytest.mark.parametrize(
    ("url", "destination", "port"),
    [
        ("ssh://host-b", "host-b", None),
        ("ssh://host-b/", "host-b", None),
        ("ssh://me@10.0.0.7", "me@10.0.0.7", None),
        ("ssh://me@host-b:2222", "me@host-b", "2222"),
        ("ssh://[fd00::7]:22", "fd00::7", "22"),
        ("ssh://-oProxyCommand=x", "-oproxycommand=x", None),
    ],
)
def test_address_becomes_a_destination_of_ssh(url: str, destination: str, port: str | None) -> None:
    """It stands behind `--`, so that none is taken for an option."""
    words = _ssh(url, "ps")
    assert words[0] == "ssh"
    assert words[-3:-1] == ["--", destination]
    assert (words[words.index("-p") + 1] if "-p" in words else None) == port


def test_ssh_never_asks_and_does_not_wait_for_ever() -> None:
    """A migration in the night has nobody to type a password."""
    words = _ssh(_URL, "ps")
    assert {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5"} <= set(words)


@pytest.mark.parametrize(
    "argument",
    ["plain", "two words", "it's", '"quoted"', "$HOME", "`id`", "a;b", "*", "", "-x", "a\nb", "ü"],
)
def test_arguments_come_through_the_remote_shell_unchanged(argument: str) -> None:
    """A real shell reads them as they were."""
    line = _ssh(_URL, "peer", argument)[-1]
    script = f"spotrun() {{ printf '%s\\0' \"$@\"; }}; {line}"
    read = subprocess.run(["sh", "-c", script], check=True, capture_output=True).stdout
    assert read.decode().split("\0")[:-1] == ["peer", argument, "--format", "json"]
    assert shlex.split(line)[0] == "spotrun"


@pytest.mark.parametrize(
    ("done", "reason"),
    [
        (
            Completed(255, stderr="ssh: connect to host host-b port 22: Connection refused\n"),
            "ssh: connect to host host-b port 22: Connection refused",
        ),
        (Completed(127, stderr="sh: 1: spotrun: not found\n"), "sh: 1: spotrun: not found"),
        (Completed(255), "it said nothing"),
        (Completed(0, "Welcome!\n"), "it answers, but not as spotrun does"),
        (Completed(0, '{"status": 7}'), "it answers, but not as spotrun does"),
        (Completed(0), "it answers, but not as spotrun does"),
    ],
    ids=["refused", "no-spotrun", "silent", "banner", "other-json", "empty"],
)
def test_host_that_does_not_answer_is_unreachable(done: Completed, reason: str) -> None:
    """The reason is in the words of ssh or of the shell there."""
    remote = Remote(AnyCommand(done), _URL)
    calls: list[Callable[[], object]] = [
        lambda: remote.call("ps"),
        lambda: remote.send(_PACK, "peer", "take", tell=_told),
    ]
    for call in calls:
        with pytest.raises(TargetUnreachable) as failed:
            call()
        assert str(failed.value) == f"{_URL} cannot be used: {reason}"


def test_error_of_the_other_host_is_an_answer() -> None:
    """Its sentences are kept, whatever the exit status."""
    errors = [{"code": "HostUnfit", "message": "no CRIU"}, {"message": "no runc"}]
    said = json.dumps({"status": "error", "data": None, "errors": errors})
    answer = Remote(AnyCommand(Completed(125, said)), _URL).call("doctor")
    assert (answer.status, answer.reason) == ("error", "no CRIU; no runc")


def test_failed_producer_is_not_taken_for_success() -> None:
    """The other host may have believed the end of a torn stream."""
    torn: Script = {_PACK: Completed(2, stderr="tar: ./x: Input/output error\n")}
    remote = Remote(AnyCommand(Completed(0, _YES), torn), _URL)
    with pytest.raises(TargetUnreachable, match=r"sending failed: tar: \./x: Input/output error$"):
        remote.send(_PACK, "peer", "take", tell=_told)


def test_refusal_by_the_other_host_comes_before_the_torn_stream() -> None:
    """It is why the stream tore."""
    said = json.dumps({"status": "error", "data": None, "errors": [{"message": "disk full"}]})
    torn: Script = {_PACK: Completed(-13)}
    remote = Remote(AnyCommand(Completed(125, said), torn), _URL)
    answer = remote.send(_PACK, "peer", "take", tell=_told)
    assert answer.reason == "disk full"
