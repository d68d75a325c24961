"""Another host, reached by ssh, on which nothing is needed but spotrun."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from spotrun.images.errors import TargetUnreachable, UsageError
from spotrun.images.process import Completed, Runner

_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5",
            "-o", "ServerAliveCountMax=3")  # fmt: skip
"""Never ask; notice within some 15 s that the other host has gone."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What spotrun on the other host returned; shape of `--format json`."""

    status: str
    data: Any
    errors: list[dict[str, Any]]

    @property
    def reason(self) -> str:
        """The sentences of its errors."""
        return "; ".join(str(error.get("message", error)) for error in self.errors)


class Remote:
    """spotrun on the host of an `ssh://[user@]host[:port]` address."""

    def __init__(self, runner: Runner, url: str) -> None:
        """Parse the address; nothing is sent yet."""
        wrong = UsageError(message=f"{url!r} is not like ssh://user@host[:port]")
        try:
            parts = urlsplit(url)
            port = ("-p", str(parts.port)) if parts.port else ()
        except ValueError:
            raise wrong from None
        if parts.scheme != "ssh" or not parts.hostname or parts.path.strip("/"):
            raise wrong
        user = f"{parts.username}@" if parts.username else ""
        self.url = url
        self._runner = runner
        self._ssh = ["ssh", *_OPTIONS, *port, "--", f"{user}{parts.hostname}"]

    def call(self, *arguments: str, stdin: bytes | None = None) -> Answer:
        """Run one verb there and return its answer, or raise TargetUnreachable."""
        text = stdin.decode() if stdin is not None else None
        return self._answer(self._runner.run(self._command(arguments), stdin=text))

    def send(self, producer: Sequence[str], *arguments: str, tell: Callable[[int], None]) -> Answer:
        """Run one verb there with the output of a local command as its stdin.

        `tell` is told how many bytes that has written.
        """
        produced, done = self._runner.pipe(producer, self._command(arguments), tell)
        answer = self._answer(done)
        if produced.status != 0 and answer.status == "success":
            raise TargetUnreachable(target=self.url, reason=f"sending failed: {produced.said}")
        return answer

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return [*self._ssh, shlex.join(["spotrun", *arguments, "--format", "json"])]

    def _answer(self, done: Completed) -> Answer:
        try:
            return msgspec.json.decode(done.stdout, type=Answer)
        except msgspec.DecodeError:
            reason = done.said if done.status else "it answers, but not as spotrun does"
            raise TargetUnreachable(target=self.url, reason=reason) from None
