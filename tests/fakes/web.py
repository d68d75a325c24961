"""A web server that answers as a test says, for what real ones do too seldom."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

_POLL = 0.01
"""Seconds until the server notices that it is to end."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a client has sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What it gets."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    claimed: int | None = None
    """Length that the headers tell; None: the true one."""


class Web:
    """Runs from `__enter__` to `__exit__`; remembers the requests."""

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        """Let `answer` decide."""
        self.requests: list[Request] = []
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                request = Request(self.command, self.path, dict(self.headers), body)
                web.requests.append(request)
                made = answer(request)
                self.send_response(made.status)
                length = len(made.body) if made.claimed is None else made.claimed
                for name, value in {"Content-Length": str(length), **made.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(made.body)

            do_GET = do_HEAD = do_PUT = do_POST = do_any  # noqa: N815 # http.server's names

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL,))

    @property
    def name(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_port}"

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
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
