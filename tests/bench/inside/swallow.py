"""Runs on a lab host: a server for S3 clients that keeps nothing, to find out what they can do.

It has one object, under every key. What is put is dropped by the kernel, uncopied (MSG_TRUNC).

Usage: swallow BYTES: serves an object of that size, until it is killed; tells its port first.
"""

import os
import re
import socket
import sys
import threading
from typing import Final

_MOST: Final = 4 << 20
"""Bytes that are dropped at once."""
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_RANGE: Final = re.compile(rb"\r\nrange: *bytes=(\d+)-(\d+)", re.IGNORECASE)
_EXPECT: Final = re.compile(rb"\r\nexpect: *100-continue", re.IGNORECASE)
_HEAD: Final = (
    'HTTP/1.1 {status}\r\nETag: "bench"\r\nLast-Modified: Tue, 01 Dec 2026 10:00:00 GMT\r\n'
    "Content-Length: {length}\r\n{more}\r\n"
)


def main() -> None:
    """Serve each connection in a thread."""
    size = int(sys.argv[1])
    content = os.memfd_create("object")
    for _ in range(size >> 20):
        os.write(content, os.urandom(1 << 20))
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_serve, args=(client, content, size), daemon=True).start()


def _serve(client: socket.socket, content: int, size: int) -> None:
    """Answer requests until the client has no more."""
    with client:
        while head := _head(client):
            if head.startswith(b"GET "):
                _give(client, head, content, size)
                continue
            if _EXPECT.search(head):
                client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            length = _LENGTH.search(head)
            _drop(client, int(length[1]) if length else 0)
            client.sendall(_HEAD.format(status="200 OK", length=0, more="").encode())


def _head(client: socket.socket) -> bytes:
    """Return a request without its body, which stays in the socket; empty: there is none."""
    while seen := client.recv(64 << 10, socket.MSG_PEEK):
        end = seen.find(b"\r\n\r\n")
        if end >= 0:
            return client.recv(end + 4)
    return b""


def _give(client: socket.socket, head: bytes, content: int, size: int) -> None:
    asked = _RANGE.search(head)
    start, end = (int(asked[1]), int(asked[2]) + 1) if asked else (0, size)
    more = f"Content-Range: bytes {start}-{end - 1}/{size}\r\n" if asked else ""
    status = "206 Partial Content" if asked else "200 OK"
    client.sendall(_HEAD.format(status=status, length=end - start, more=more).encode())
    while start < end:
        start += os.sendfile(client.fileno(), content, start, end - start)


def _drop(client: socket.socket, length: int) -> None:
    room = bytearray(_MOST)  # never written to
    while length:
        got = client.recv_into(room, min(length, _MOST), socket.MSG_TRUNC)
        if not got:
            return
        length -= got


if __name__ == "__main__":
    main()
