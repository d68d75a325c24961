"""Metadata services of clouds, after their documentation, and the ways in which they fail."""

import json
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Protocol, Self
from urllib.parse import parse_qs, urlsplit

from tests.fakes.web import Answer, Request

_POLL: Final = 0.005
_NOTHING: Final = Answer(404, b"not found")
HANG: Final = Answer(0)
"""What a cloud says when it has no answer yet."""


class Trouble(Enum):
    """What may be the matter with a service."""

    GARBLED = auto()
    TRUNCATED = auto()
    UNAVAILABLE = auto()
    BUSY = auto()
    SLOW = auto()


class Cloud(Protocol):
    """What a service knows."""

    def answer(self, request: Request) -> Answer:
        """Return what it says."""
        ...

    def announce(self, seconds: float) -> None:
        """Take this host back in so many seconds of the service's clock."""
        ...

    def withdraw(self) -> None:
        """Take it back no more."""
        ...


class Service:
    """Serves a cloud from `__enter__` to `__exit__`; remembers the requests."""

    def __init__(self, cloud: Cloud, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        """Listen at that address, port 0 being any."""
        self.cloud = cloud
        self.requests: list[Request] = []
        self.trouble: Trouble | None = None
        self.ahead = 0.0
        """Seconds by which its clock differs from this host's."""
        self.dated = True
        """Whether it tells the time."""
        self._ended = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, headers, body)
                service.requests.append(request)
                answer = service._answer(request)
                if service._ended.is_set():
                    return
                self.send_response(answer.status)
                length = len(answer.body) if answer.claimed is None else answer.claimed
                for name, value in {"Content-Length": str(length), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_PUT = do_POST = do_any  # noqa: N815 # http.server's names

            def date_time_string(self, timestamp: float | None = None) -> str:
                told = super().date_time_string((timestamp or time.time()) + service.ahead)
                return told if service.dated else ""

            def log_message(self, *_: object) -> None:
                """Stay silent."""

            def handle(self) -> None:
                with suppress(OSError):  # a client that did not wait
                    super().handle()

        self._server = ThreadingHTTPServer(address, Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL,))

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self._server.server_address[0]!s}:{self._server.server_port}"

    def __enter__(self) -> Self:
        """Start to listen."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Die."""
        self.die()

    def die(self) -> None:
        """Listen no more; whoever waits gets nothing."""
        if not self._ended.is_set():
            self._ended.set()
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def _answer(self, request: Request) -> Answer:
        if self.trouble is Trouble.SLOW:
            self._ended.wait(30)
            return _NOTHING
        if self.trouble is Trouble.UNAVAILABLE:
            return Answer(503, b"try again")
        if self.trouble is Trouble.BUSY:
            return Answer(429, b"too many requests")
        answer = self.cloud.answer(request)
        while answer is HANG and not self._ended.wait(_POLL):
            answer = self.cloud.answer(request)
        match self.trouble:
            case Trouble.GARBLED:
                return Answer(200, b'{"\xff<html>', answer.headers)
            case Trouble.TRUNCATED:
                told = answer.body or b"[]"
                return Answer(200, told[:-1], answer.headers, claimed=len(told))
        return answer


class Tokens:
    """Session tokens as AWS's IMDSv2 and Alibaba give them."""

    def __init__(self, header: str) -> None:
        """Expect them in that header."""
        self.given = 0
        self._header = header
        self._valid: set[str] = set()

    def expire(self) -> None:
        """Let all that were given be valid no more."""
        self._valid.clear()

    def answer(self, request: Request) -> Answer | None:
        """Give one, or refuse a request without; None: it may be answered."""
        life = f"{self._header}-ttl-seconds"
        if request.path == "/latest/api/token":
            if request.method != "PUT" or not 1 <= int(request.headers.get(life, 0)) <= 21600:
                return Answer(400)
            self.given += 1
            token = f"token-{self.given}=="
            self._valid.add(token)
            return Answer(200, token.encode(), {life: request.headers[life]})
        return None if request.headers.get(self._header) in self._valid else Answer(401)


class AwsCloud:
    """IMDSv2 of a spot instance."""

    def __init__(self) -> None:
        """Have nothing to tell."""
        self.tokens = Tokens("x-aws-ec2-metadata-token")
        self.values = {"instance-id": "i-0123456789abcdef0", "events/maintenance/scheduled": "[]"}

    def announce(self, seconds: float) -> None:
        """Terminate it."""
        self.interrupt("terminate", seconds)

    def interrupt(self, action: str, seconds: float) -> None:
        """Do that with it."""
        told = {"action": action, "time": _stamp(seconds)}
        self.values["spot/instance-action"] = json.dumps(told)

    def withdraw(self) -> None:
        """Let it be."""
        del self.values["spot/instance-action"]

    def answer(self, request: Request) -> Answer:
        """Answer for a token only."""
        refused = self.tokens.answer(request)
        if refused:
            return refused
        value = self.values.get(request.path.removeprefix("/latest/meta-data/"))
        return _NOTHING if value is None else Answer(200, value.encode())


class GcpCloud:
    """Compute Engine's metadata server for a spot VM."""

    def __init__(self) -> None:
        """Have nothing to tell."""
        self.values = {"preempted": "FALSE", "maintenance-event": "NONE"}
        self.longest = 60.0
        """Seconds that it keeps a client waiting."""
        self._waiting: dict[int, float] = {}

    def announce(self, seconds: float) -> None:
        """Preempt it; the time is always the same."""
        assert seconds == 30, seconds
        self.values["preempted"] = "TRUE"

    def withdraw(self) -> None:
        """Let it be, which the real one never does."""
        self.values["preempted"] = "FALSE"

    def answer(self, request: Request) -> Answer:
        """Answer when the value is another than the client knows, or its time is over."""
        headers = {"Metadata-Flavor": "Google"}
        if request.headers.get("metadata-flavor") != "Google":
            return Answer(403, b"", headers)
        url = urlsplit(request.path)
        value = self.values.get(url.path.removeprefix("/computeMetadata/v1/instance/"))
        if value is None:
            return Answer(404, b"", headers)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        etag = f"{hash(value) & 0xFFFFFFFF:x}"
        if query.get("wait_for_change") == "true" and query["last_etag"] == etag:
            since = self._waiting.setdefault(id(request), time.monotonic())
            if time.monotonic() < since + min(self.longest, float(query["timeout_sec"])):
                return HANG
        return Answer(200, value.encode(), {**headers, "ETag": etag})


class AzureCloud:
    """Azure's Instance Metadata Service of one VM in a set."""

    def __init__(self) -> None:
        """Have nothing to tell."""
        self.vm = "train_0"
        self.events: list[dict[str, object]] = []
        self.started: list[str] = []
        self.first = 0.0
        """Seconds that the first look at the events takes."""

    def announce(self, seconds: float) -> None:
        """Evict it."""
        self.events.append(self.event("Preempt", seconds))

    def event(
        self, kind: str, seconds: float, *vms: str, status: str = "Scheduled"
    ) -> dict[str, object]:
        """Return an event, of this VM if none is named."""
        when = datetime.now(UTC) + timedelta(seconds=seconds)
        return {
            "EventId": f"{kind}-{len(self.events)}",
            "EventType": kind,
            "ResourceType": "VirtualMachine",
            "Resources": list(vms or [self.vm]),
            "EventStatus": status,
            "NotBefore": f"{when:%a, %d %b %Y %H:%M:%S} GMT" if status == "Scheduled" else "",
            "Description": "what Azure says",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        }

    def withdraw(self) -> None:
        """Let it be."""
        self.events.clear()

    def answer(self, request: Request) -> Answer:
        """Answer, and start what is approved."""
        url = urlsplit(request.path)
        if request.headers.get("metadata") != "true" or "api-version=" not in url.query:
            return Answer(400, b'{"error":"Bad request"}')
        if url.path == "/metadata/instance/compute":
            return _json({"name": self.vm, "vmId": "13f56399-bd52-4150-9748-7190aae1ff21"})
        if url.path != "/metadata/scheduledevents":
            return _NOTHING
        if request.method == "POST":
            approved = json.loads(request.body)["StartRequests"]
            self.started += [it["EventId"] for it in approved]
            return Answer(200)
        wait, self.first = self.first, 0.0
        time.sleep(wait)
        return _json({"DocumentIncarnation": 1, "Events": self.events})


class AlibabaCloud:
    """ECS's metadata service for a preemptible instance."""

    def __init__(self) -> None:
        """Have nothing to tell."""
        self.tokens = Tokens("x-aliyun-ecs-metadata-token")
        self.release: str | None = None

    def announce(self, seconds: float) -> None:
        """Release it."""
        self.release = _stamp(seconds)

    def withdraw(self) -> None:
        """Let it be."""
        self.release = None

    def answer(self, request: Request) -> Answer:
        """Answer for a token only."""
        refused = self.tokens.answer(request)
        if refused:
            return refused
        if request.path == "/latest/meta-data/instance-id":
            return Answer(200, b"i-bp1234567890abcdef")
        if request.path == "/latest/meta-data/instance/spot/termination-time" and self.release:
            return Answer(200, self.release.encode())
        return _NOTHING


class TencentCloud:
    """CVM's metadata service for a spot instance."""

    def __init__(self) -> None:
        """Have nothing to tell."""
        self.termination: str | None = None

    def announce(self, seconds: float) -> None:
        """Take it back, in the time of Beijing."""
        when = datetime.now(UTC) + timedelta(hours=8, seconds=seconds)
        self.termination = f"{when:%Y-%m-%d %H:%M:%S}"

    def withdraw(self) -> None:
        """Let it be."""
        self.termination = None

    def answer(self, request: Request) -> Answer:
        """Answer anybody."""
        if request.path == "/latest/meta-data/instance-id":
            return Answer(200, b"ins-12345678")
        if request.path == "/latest/meta-data/spot/termination-time" and self.termination:
            return Answer(200, self.termination.encode())
        return _NOTHING


def _stamp(seconds: float) -> str:
    return f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def _json(document: object) -> Answer:
    return Answer(200, json.dumps(document).encode())
