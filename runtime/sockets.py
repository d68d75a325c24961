"""The sockets that processes hold, and who is at their other ends.

TCP is read from /proc; the peers of unix sockets come from the kernel's socket diagnosis.
"""

import ctypes
import re
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final

from spotrun.runtime.procfs import Vanishing, open_files, text

_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")
_CLONE_NEWNET: Final = 0x40000000
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_UNIX_DIAG_PEER: Final = 2
_UNIX_PEERS_QUESTION: Final = struct.pack("=IHHII", 40, _SOCK_DIAG_BY_FAMILY, 0x301, 1, 0) + (
    struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 1 << 1, 0, 4, 0, 0)
)
"""A netlink dump request: the peers (4) of all unix sockets in state established (1 << 1)."""


@dataclass(frozen=True, slots=True)
class _End:
    """One end of a TCP connection."""

    address: IPv4Address | IPv6Address
    port: int

    def __str__(self) -> str:
        if isinstance(self.address, IPv6Address):
            return f"[{self.address}]:{self.port}"
        return f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """One line of /proc/PID/net/tcp."""

    local: _End
    remote: _End
    state: int
    inode: int
    """0: no process holds it any more, or not yet."""

    @property
    def connected(self) -> bool:
        """Tell whether a restore would have to bring a connection back; see TCP_* in the kernel."""
        time_wait, close, listen = 6, 7, 10
        return self.state not in {time_wait, close, listen}


def inside(
    it: TcpSocket, holders: Mapping[tuple[_End, _End], int], owners: Mapping[int, int]
) -> bool:
    """Tell whether the other end belongs to the container, or to nobody on the loopback."""
    holder = holders.get((it.remote, it.local))
    return it.remote.address.is_loopback if holder is None else holder in owners


def tcp(pid: int) -> list[TcpSocket]:
    """Return the TCP sockets of the process's network."""
    return [*_listed(text(pid, "net/tcp")), *_listed(text(pid, "net/tcp6"))]


def _listed(table: str) -> Iterator[TcpSocket]:
    for line in table.splitlines()[1:]:
        fields = line.split()
        yield TcpSocket(_end(fields[1]), _end(fields[2]), int(fields[3], 16), int(fields[9]))


def _end(words: str) -> _End:
    """Read like `0100007F:1F90`: words of the address in the CPU's byte order, and the port."""
    address, _, port = words.partition(":")
    parts = [int(word, 16).to_bytes(4, sys.byteorder) for word in re.findall(".{8}", address)]
    if len(parts) == 1:
        return _End(IPv4Address(parts[0]), int(port, 16))
    full = IPv6Address(b"".join(parts))
    return _End(full.ipv4_mapped or full, int(port, 16))


def one_of_each_network(pids: Sequence[int]) -> list[int]:
    """Return one process of every network namespace that the processes live in."""
    found: dict[Path, int] = {}
    for pid in pids:
        with Vanishing():
            found.setdefault(Path(f"/proc/{pid}/ns/net").readlink(), pid)
    return list(found.values())


def unix_peers(pid: int) -> list[tuple[int, int]]:
    """Return the inodes of both ends of connected unix sockets in the process's network."""
    with Vanishing(), ThreadPoolExecutor(max_workers=1) as thread_that_ends:
        return thread_that_ends.submit(_ask_unix_peers, Path(f"/proc/{pid}/ns/net")).result()
    return []


def _ask_unix_peers(network: Path) -> list[tuple[int, int]]:
    """Ask by sock_diag(7), from a thread that may be moved to another network namespace."""
    if network.readlink() != Path("/proc/thread-self/ns/net").readlink():
        with network.open("rb") as namespace:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "cannot enter", str(network))
    peers: list[tuple[int, int]] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as diagnosis:
        diagnosis.send(_UNIX_PEERS_QUESTION)
        last = False
        while not last:
            found, last = _unix_answers(diagnosis.recv(1 << 16))
            peers += found
    return peers


def _unix_answers(raw: bytes) -> tuple[list[tuple[int, int]], bool]:
    """Return the pairs of inodes in a netlink message, and whether it is the last one."""
    found: list[tuple[int, int]] = []
    while raw:
        length, kind = struct.unpack_from("=IH", raw)
        if kind != _SOCK_DIAG_BY_FAMILY:
            return found, True
        _, type_, _, inode = struct.unpack_from("=BBBxI", raw, 16)
        peer = _netlink_attribute(raw[32:length], _UNIX_DIAG_PEER)
        if peer and type_ in {socket.SOCK_STREAM, socket.SOCK_SEQPACKET}:
            found.append((inode, peer))
        raw = raw[length + -length % 4 :]
    return found, False


def _netlink_attribute(raw: bytes, wanted: int) -> int | None:
    while raw:
        length, kind = struct.unpack_from("=HH", raw)
        if kind == wanted:
            return int.from_bytes(raw[4:8], sys.byteorder)
        raw = raw[length + -length % 4 :]
    return None


def unix_path(pid: int, inode: int) -> str | None:
    """Return a unix socket's path, which an accepted one has from its listener."""
    for line in text(pid, "net/unix").splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if int(fields[6]) == inode:
            return "".join(fields[7:]) or None
    return None


def owners(pids: Sequence[int]) -> dict[int, int]:
    """Return the inode of every socket that the processes hold, each with one holder."""
    found = ((_SOCKET.fullmatch(target), pid) for pid in pids for _, target in open_files(pid))
    return {int(match[1]): pid for match, pid in found if match}
