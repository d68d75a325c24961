"""Questions to a cloud's metadata service, and what counts as an answer.

`http.client` knows no proxies, so none is ever asked (which is what the services want, too), and
follows no redirects.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse
from itertools import chain
from typing import Final, TypeVar

import msgspec

from spotrun.hooks.notices import times
from spotrun.hooks.notices.notice import Notice

T = TypeVar("T")
LINK_LOCAL: Final = "169.254.169.254"
_MOST: Final = 1 << 20
"""Bytes of a reply that can be meant for us."""


class NoAnswer(Exception):
    """The service said nothing that can be relied upon."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the service said."""

    status: int
    headers: HTTPMessage
    text: str
    asked: float
    """When, by `time.monotonic`."""

    def document(self, kind: type[T]) -> T:
        """Read JSON; raise NoAnswer if it is anything else."""
        try:
            return msgspec.json.decode(self.text, type=kind)
        except msgspec.MsgspecError as error:
            raise NoAnswer from error

    def deadline(self, read: Callable[[str], datetime], text: str) -> float | None:
        """Return when an instant is by `time.monotonic`, or None if the text is none.

        The service tells the time with each reply, so that this host's clock may be wrong.
        """
        try:
            return self.asked + (read(text) - self._now()).total_seconds()
        except ValueError:
            return None

    def _now(self) -> datetime:
        try:
            return times.rfc1123(self.headers.get("Date", ""))
        except ValueError:
            return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Metadata:
    """A metadata service."""

    address: str
    """Host, or host:port."""
    timeout: float = 2.0
    """Seconds that it may be silent."""

    def ask(
        self,
        path: str,
        headers: Mapping[str, str],
        *,
        method: str = "GET",
        body: str | None = None,
        patience: float = 0,
    ) -> Reply:
        """Return its reply whatever the status; `patience` adds seconds to the timeout.

        NoAnswer is raised if there is none, or only a part.
        """
        asked = time.monotonic()
        connection = HTTPConnection(self.address, timeout=self.timeout + patience)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return Reply(response.status, response.headers, _whole(response), asked)
        except (OSError, HTTPException, ValueError) as error:
            raise NoAnswer from error
        finally:
            connection.close()


def found(reply: Reply) -> Reply | None:
    """Return a reply of status 200, or None for 404: there is nothing; else raise NoAnswer."""
    if reply.status == HTTPStatus.NOT_FOUND:
        return None
    if reply.status != HTTPStatus.OK:
        raise NoAnswer
    return reply


class Guarded:
    """Metadata that is given for a session token only, as by AWS's IMDSv2 and Alibaba."""

    def __init__(self, metadata: Metadata, header: str) -> None:
        """Send the token as `header`, and its life, when one is asked for, as that with a suffix.

        The life is the longest that both providers know: six hours.
        """
        self._metadata = metadata
        self._header = header
        self._token: str | None = None

    def find(self, path: str) -> Reply | None:
        """Return what is there, or None if nothing is; NoAnswer if that cannot be known."""
        reply = self._ask(path)
        if reply.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            self._token = None
            reply = self._ask(path)
        return found(reply)

    def _ask(self, path: str) -> Reply:
        if self._token is None:
            self._token = self._new_token()
        return self._metadata.ask(path, {self._header: self._token})

    def _new_token(self) -> str:
        life = {f"{self._header}-ttl-seconds": "21600"}
        reply = found(self._metadata.ask("/latest/api/token", life, method="PUT"))
        token = reply.text.strip() if reply else ""
        if not token or not token.isascii() or not token.isprintable():
            raise NoAnswer
        return token


class Questions:
    """Several questions, each with the notices that it was last answered with."""

    def __init__(self, *questions: Callable[[], Iterable[Notice]]) -> None:
        """Ask them in that order; NoAnswer is the only error that they raise."""
        self._answers: dict[Callable[[], Iterable[Notice]], tuple[Notice, ...]]
        self._answers = dict.fromkeys(questions, ())

    def ask(self) -> tuple[Notice, ...] | None:
        """Return what all answers say; None if there was none to any question.

        One that is not answered this time stands as it was answered last.
        """
        answered = False
        for question in self._answers:
            try:
                self._answers[question] = tuple(question())
                answered = True
            except NoAnswer:
                continue
        return tuple(chain(*self._answers.values())) if answered else None


def _whole(response: HTTPResponse) -> str:
    length = response.length
    body = response.read(_MOST)
    if length is not None and len(body) < length:
        raise NoAnswer
    return body.decode()
