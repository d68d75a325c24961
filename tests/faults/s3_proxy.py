"""A proxy between an S3 client and its server that breaks what it is told to break."""

import time
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Final, Self

_SKIPPED: Final = {"connection", "content-length", "date", "transfer-encoding"}
"""Headers of a reply that are written anew."""


class Fault(Enum):
    """What becomes of one request."""

    LOST_REQUEST = auto()
    """The connection breaks before the server has the request."""
    LOST_REPLY = auto()
    """It breaks after the server has done it: the acknowledgement is lost."""
    ERROR_500 = auto()
    ERROR_503 = auto()
    EXPIRED = auto()
    """The server says that the credentials have expired."""
    LATE = auto()
    """The server gets it, and does it, after the client has given up waiting."""
    CUT = auto()
    """The reply ends halfway."""
    TWICE = auto()
    """The reply comes twice."""


Step = Fault | Callable[[], None]
"""A fault, or what happens in the world just before a request that comes through whole."""

_REFUSALS: Final = {
    Fault.ERROR_500: (500, "InternalError"),
    Fault.ERROR_503: (503, "SlowDown"),
    Fault.EXPIRED: (403, "ExpiredToken"),
}


class FaultyProxy:
    """Follows its plan request by request; when that is at its end, nothing breaks any more."""

    def __init__(self, port: int, *, late: float) -> None:
        """Stand before the server at `port`; `late` is how late it is in seconds."""
        self.port = port
        self.late = late
        self.seen: list[str] = []
        """Methods of all requests."""
        self._plan: deque[Step] = deque()
        self._lock = Lock()
        self._server = _Server(self)

    @property
    def endpoint(self) -> str:
        """URL of the proxy."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def plan(self, *steps: Step) -> None:
        """Do this with the next requests, and forget what was seen."""
        with self._lock:
            self._plan = deque(steps)
            self.seen.clear()

    def next(self, method: str) -> Step | None:
        """Return the next step of the plan."""
        with self._lock:
            self.seen.append(method)
            return self._plan.popleft() if self._plan else None

    def __enter__(self) -> Self:
        """Begin to listen."""
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, proxy: FaultyProxy) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy = proxy

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: the client is meant to go away in the middle."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """Do one step of the plan."""
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        step = proxy.next(self.command)
        if step in _REFUSALS:
            self._send(*_refusal(step))
            return
        if step is Fault.LOST_REQUEST:
            self.close_connection = True
            return
        if step is Fault.LATE:
            time.sleep(proxy.late)
        elif callable(step):
            step()
        head, content = self._forward(body)
        if step is Fault.LOST_REPLY:
            self.close_connection = True
        elif step is Fault.CUT:
            self.close_connection = True
            self.wfile.write(_half(head, content))
        else:
            self._send(head, content, times=2 if step is Fault.TWICE else 1)

    do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 # http.server's names

    def log_message(self, *arguments: object) -> None:
        """Keep quiet."""

    def _forward(self, body: bytes) -> tuple[bytes, bytes]:
        """Return the server's reply: its head, and its content."""
        server = HTTPConnection("127.0.0.1", self.server.proxy.port)
        try:
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                server.putheader(name, value)
            server.endheaders(body)
            reply = server.getresponse()
            kept = [it for it in reply.getheaders() if it[0].lower() not in _SKIPPED]
            content = reply.read()
        finally:
            server.close()
        return _head(reply.status, reply.reason, kept, len(content)), content

    def _send(self, head: bytes, content: bytes, times: int = 1) -> None:
        self.wfile.write((head + content) * times)


def _refusal(fault: Fault) -> tuple[bytes, bytes]:
    status, code = _REFUSALS[fault]
    content = f"<Error><Code>{code}</Code><Message>{code} it is.</Message></Error>".encode()
    return _head(status, code, [("Content-Type", "application/xml")], len(content)), content


def _head(status: int, reason: str, headers: list[tuple[str, str]], length: int) -> bytes:
    lines = [f"{name}: {value}" for name, value in [*headers, ("Content-Length", str(length))]]
    return "\r\n".join([f"HTTP/1.1 {status} {reason}", *lines, "", ""]).encode()


def _half(head: bytes, content: bytes) -> bytes:
    """Return half of the content, or of the head where there is none."""
    return head + content[: len(content) // 2] if content else head[: len(head) // 2]
