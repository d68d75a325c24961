"""What cannot be saved is refused here, before anything is frozen.

Everything is read from /proc, and the peers of unix sockets from the kernel's socket diagnosis;
no process is stopped or traced. A process that ends meanwhile counts as having nothing.
"""

import ctypes
import errno
import os
import re
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, Final

from spotrun.images.errors import NotCapturable

_GONE: Final = {errno.ENOENT, errno.ESRCH, errno.EINVAL}
"""What /proc answers of a process that has ended; EINVAL of its network, until it is reaped."""
_CAP_SYS_RESOURCE: Final = 24
"""Its number in capabilities(7)."""
_PAUSE: Final = 0.25
"""Seconds between the looks at a thread that waits uninterruptibly."""
_DELETED: Final = " (deleted)"
"""Behind the name of a file that has lost it, as its link in /proc says it."""
_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")
_CLONE_NEWNET: Final = 0x40000000
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_UNIX_DIAG_PEER: Final = 2
_UNIX_PEERS_QUESTION: Final = struct.pack("=IHHII", 40, _SOCK_DIAG_BY_FAMILY, 0x301, 1, 0) + (
    struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 1 << 1, 0, 4, 0, 0)
)
"""A netlink dump request: the peers (4) of all unix sockets in state established (1 << 1)."""
_SHARED: Final = {"pid": "--pid=host", "ipc": "--ipc=host", "network": "--network=host"}
"""Namespaces that a container must have of its own, and the option that takes them away."""
_CRIU_SAVES: Final = frozenset(
    "bpf-map inotify [eventfd] [eventpoll] [fanotify] [pidfd] [signalfd] [timerfd]".split()
)
"""The anonymous inodes that CRIU knows; see `dump_one_file` in its files.c."""
_DEVICES: Final = ("/dev/dri/", "/dev/fuse", "/dev/infiniband/", "/dev/kfd", "/dev/kvm")
"""Devices that jobs use and CRIU does not know."""


def specification(job: str, spec: Mapping[str, Any]) -> None:
    """Refuse what the container's `config.json` rules out; NotCapturable names the option."""
    own = {entry["type"] for entry in spec["linux"]["namespaces"]}
    for namespace, option in _SHARED.items():
        if namespace not in own:
            reason = f"it shares the host's {namespace} namespace; run it without {option}"
            raise NotCapturable(job=job, reason=reason)


def examine(job: str, pids: Sequence[int]) -> None:
    """Refuse what the processes of a container do or hold; NotCapturable names it.

    `pids` are the container's processes, all of them, as this host numbers them.
    """
    try:
        reason = next(filter(None, (check(pids) for check in _CHECKS)), None)
    except PermissionError as error:
        reason = f"{error.filename} cannot be read; run spotrun as root"
    if reason:
        raise NotCapturable(job=job, reason=reason)


def obstacle(target: str) -> str | None:
    """Say why an open or mapped file cannot be saved, by what its link in /proc says."""
    if target == "anon_inode:[io_uring]":
        return "an io_uring, which CRIU cannot save; run the job with io_uring turned off"
    if target.startswith("/secretmem"):
        return "secret memory (memfd_secret), which CRIU cannot read; run the job without it"
    if target.startswith("/dev/nvidia"):
        return f"{target}, and GPU memory is not supported yet; run the job without a GPU"
    kind, _, name = target.partition(":")
    if target.startswith(_DEVICES) or (kind == "anon_inode" and name not in _CRIU_SAVES):
        return f"{target}, which CRIU cannot save; let the process close it first"
    return None


def _traced(pids: Sequence[int]) -> str | None:
    for pid, thread, status in _threads(pids):
        tracer = int(status["TracerPid"])
        if tracer:
            return (
                f"{_named(pid, thread)} is traced by {_named(tracer)}, like by strace or a"
                " debugger; detach it first"
            )
    return None


def from_outside(pids: Sequence[int]) -> str | None:
    """Find a process that the container's first one did not start, as `exec` brings them in.

    CRIU saves a tree of processes, and what hangs beside it in the cgroup makes the dump fail.
    """
    starts = {
        pid: status
        for pid, thread, status in _threads(pids)
        if pid == thread and int(status["PPid"]) not in pids
    }
    for pid, status in starts.items():
        first = status["NSpid"].split()[-1] == "1"
        if len(starts) > 1 and not first:
            return f"{_named(pid)} came in by `exec`; end it first"
    return None


def _other_user(pids: Sequence[int]) -> str | None:
    """Find a process of another user or group where root may not read its limits (prlimit(2))."""
    _, _, own = next(_threads([os.getpid()]))
    if int(own["CapEff"], 16) >> _CAP_SYS_RESOURCE & 1:
        return None
    for pid, thread, status in _threads(pids):
        for kind, ids in (("user", status["Uid"].split()), ("group", status["Gid"].split())):
            if pid == thread and set(ids) != {"0"}:
                return (
                    f"{_named(pid)} runs as {kind} {ids[0]}, and root on this host lacks"
                    " CAP_SYS_RESOURCE, which CRIU needs for that"
                )
    return None


def _stuck(pids: Sequence[int]) -> str | None:
    """Find a thread that does not leave its uninterruptible wait: it could not be frozen."""
    waiting = _waiting(pids)
    for _ in range(2):
        if waiting:
            time.sleep(_PAUSE)
            waiting &= _waiting(pids)
    if not waiting:
        return None
    pid, thread, _ = min(waiting)
    return (
        f"{_named(pid, thread)} is in state D, an uninterruptible wait that does not end;"
        " see to the file system or device it waits for, or end the process"
    )


def _waiting(pids: Sequence[int]) -> set[tuple[int, int, str]]:
    """Return the threads in state D with the number of their waits, which tells busy from stuck."""
    return {
        (pid, thread, status["voluntary_ctxt_switches"])
        for pid, thread, status in _threads(pids)
        if status["State"].startswith("D")
    }


def _open_file(pids: Sequence[int]) -> str | None:
    for pid in pids:
        for fd, target in _open_files(pid):
            why = obstacle(target)
            if why:
                return f"{_named(pid)} has file descriptor {fd} on {why}"
    return None


def _mapped_file(pids: Sequence[int]) -> str | None:
    for pid in pids:
        lines = _text(pid, "maps").splitlines()
        for target in {path for line in lines for path in line.split(maxsplit=5)[5:]}:
            why = obstacle(target)
            if why:
                return f"{_named(pid)} has mapped {why}"
    return None


def _tcp_connection(pids: Sequence[int]) -> str | None:
    """Find a TCP connection whose other end is not in the container."""
    owners = _socket_owners(pids)
    for pid in _one_of_each_network(pids):
        table = [*_sockets(_text(pid, "net/tcp")), *_sockets(_text(pid, "net/tcp6"))]
        holders = {(it.local, it.remote): it.inode for it in table if it.inode}
        for it in table:
            if it.inode in owners and it.connected and not _inside(it, holders, owners):
                return (
                    f"{_named(owners[it.inode])} has a TCP connection from {it.local} to"
                    f" {it.remote} outside the container; let it close the connection first"
                )
    return None


def _bound_address(pids: Sequence[int]) -> str | None:
    """Find a TCP socket bound to an address that the container will not have after a restore."""
    owners = _socket_owners(pids)
    for pid in _one_of_each_network(pids):
        for it in [*_sockets(_text(pid, "net/tcp")), *_sockets(_text(pid, "net/tcp6"))]:
            address = it.local.address
            if it.inode in owners and not (address.is_loopback or address.is_unspecified):
                return (
                    f"{_named(owners[it.inode])} has a TCP socket bound to {it.local}, which the"
                    " container may not have when it goes on; bind it to 0.0.0.0 or to 127.0.0.1"
                )
    return None


def _unix_connection(pids: Sequence[int]) -> str | None:
    """Find a connected unix socket whose other end is not in the container."""
    owners = _socket_owners(pids)
    for pid in _one_of_each_network([*pids, os.getpid()]):  # a connection is listed where it began
        for inode, peer in _unix_peers(pid):
            if inode in owners and peer not in owners:
                path = _unix_path(pid, peer) or _unix_path(pid, inode) or "without a path"
                return (
                    f"{_named(owners[inode])} is connected by the unix socket {path} to a process"
                    " outside the container; let it close the connection first"
                )
    return None


def _linked_elsewhere(pids: Sequence[int]) -> str | None:
    """Find a file that is open under a name it has lost, and has others.

    CRIU links it anew for the time of a dump only (`link-remap`), so that no copy of the files
    has that name, which a restore would need. What a tmpfs has is in the dump itself.
    """
    for pid in pids:
        held = {it.split()[2] for it in _text(pid, "mountinfo").splitlines() if " - tmpfs " in it}
        for fd, target in _open_files(pid):
            with _Vanishing():
                found = Path(f"/proc/{pid}/fd/{fd}").stat() if target.endswith(_DELETED) else None
                if found is None or not found.st_nlink or not stat.S_ISREG(found.st_mode):
                    continue
                if f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}" not in held:
                    name = target.removesuffix(_DELETED)
                    return (
                        f"{_named(pid)} has {name} open, which was removed and has other names"
                        " still; let the process close it first"
                    )
    return None


_CHECKS: Final[tuple[Callable[[Sequence[int]], str | None], ...]] = (
    _traced,
    from_outside,
    _other_user,
    _stuck,
    _open_file,
    _mapped_file,  # behind _stuck: the memory map of a stuck process may be locked
    _tcp_connection,
    _bound_address,
    _unix_connection,
    _linked_elsewhere,
)


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
class _Socket:
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


def _inside(
    it: _Socket, holders: Mapping[tuple[_End, _End], int], owners: Mapping[int, int]
) -> bool:
    """Tell whether the other end belongs to the container, or to nobody on the loopback."""
    holder = holders.get((it.remote, it.local))
    return it.remote.address.is_loopback if holder is None else holder in owners


def _sockets(table: str) -> Iterator[_Socket]:
    for line in table.splitlines()[1:]:
        fields = line.split()
        yield _Socket(_end(fields[1]), _end(fields[2]), int(fields[3], 16), int(fields[9]))


def _end(text: str) -> _End:
    """Read like `0100007F:1F90`: words of the address in the CPU's byte order, and the port."""
    address, _, port = text.partition(":")
    words = [int(word, 16).to_bytes(4, sys.byteorder) for word in re.findall(".{8}", address)]
    if len(words) == 1:
        return _End(IPv4Address(words[0]), int(port, 16))
    full = IPv6Address(b"".join(words))
    return _End(full.ipv4_mapped or full, int(port, 16))


def _one_of_each_network(pids: Sequence[int]) -> list[int]:
    """Return one process of every network namespace that the processes live in."""
    found: dict[Path, int] = {}
    for pid in pids:
        with _Vanishing():
            found.setdefault(Path(f"/proc/{pid}/ns/net").readlink(), pid)
    return list(found.values())


def _unix_peers(pid: int) -> list[tuple[int, int]]:
    """Return the inodes of both ends of connected unix sockets in the process's network."""
    with _Vanishing(), ThreadPoolExecutor(max_workers=1) as thread_that_ends:
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


def _unix_path(pid: int, inode: int) -> str | None:
    """Return a unix socket's path, which an accepted one has from its listener."""
    for line in _text(pid, "net/unix").splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if int(fields[6]) == inode:
            return "".join(fields[7:]) or None
    return None


def _socket_owners(pids: Sequence[int]) -> dict[int, int]:
    """Return the inode of every socket that the processes hold, each with one holder."""
    found = ((_SOCKET.fullmatch(target), pid) for pid in pids for _, target in _open_files(pid))
    return {int(match[1]): pid for match, pid in found if match}


def _open_files(pid: int) -> list[tuple[str, str]]:
    """Return the file descriptors of a process and what their links say."""
    found = []
    for path in _entries(Path(f"/proc/{pid}/fd")):
        with _Vanishing():
            found.append((path.name, str(path.readlink())))
    return found


def _threads(pids: Sequence[int]) -> Iterator[tuple[int, int, dict[str, str]]]:
    """Yield process, thread and the fields of its status."""
    for pid in pids:
        for path in _entries(Path(f"/proc/{pid}/task")):
            lines = _text(pid, f"task/{path.name}/status").splitlines()
            if lines:
                yield pid, int(path.name), dict(line.split(":\t", 1) for line in lines)


def _named(pid: int, thread: int | None = None) -> str:
    process = f"process {pid} ({_text(pid, 'comm').strip()})"
    return process if thread in {None, pid} else f"thread {thread} of {process}"


def _text(pid: int, name: str) -> str:
    with _Vanishing():
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    return ""


def _entries(folder: Path) -> list[Path]:
    with _Vanishing():
        return list(folder.iterdir())
    return []


class _Vanishing:
    """Does without what a process had that has ended meanwhile."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        return isinstance(error, OSError) and (error.errno in _GONE or _ended(error))


def _ended(error: OSError) -> bool:
    """Tell whether what is forbidden is so since its process has just ended.

    The kernel says so of the links in /proc/PID/ns then (proc_ns_readlink in fs/proc/namespaces.c).
    """
    parts = Path(str(error.filename)).parts
    return error.errno == errno.EACCES and parts[1:2] == ("proc",) and not Path(*parts[:3]).exists()
