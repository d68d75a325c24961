"""What cannot be saved is refused here, before anything is frozen.

No process is stopped or traced for it. One that ends meanwhile counts as having nothing.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from spotrun.images.errors import NotCapturable
from spotrun.runtime import procfs, sockets
from spotrun.runtime.processes import overlay_upper

_CAP_SYS_RESOURCE: Final = 24
"""Its number in capabilities(7)."""
_PAUSE: Final = 0.25
"""Seconds between the looks at a thread that waits uninterruptibly."""
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
    for pid, thread, status in procfs.threads(pids):
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
        for pid, thread, status in procfs.threads(pids)
        if pid == thread and int(status["PPid"]) not in pids
    }
    for pid, status in starts.items():
        first = status["NSpid"].split()[-1] == "1"
        if len(starts) > 1 and not first:
            return f"{_named(pid)} came in by `exec`; end it first"
    return None


def _other_user(pids: Sequence[int]) -> str | None:
    """Find a process of another user or group where root may not read its limits (prlimit(2))."""
    _, _, own = next(procfs.threads([os.getpid()]))
    if int(own["CapEff"], 16) >> _CAP_SYS_RESOURCE & 1:
        return None
    for pid, thread, status in procfs.threads(pids):
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
        for pid, thread, status in procfs.threads(pids)
        if status["State"].startswith("D")
    }


def _open_file(pids: Sequence[int]) -> str | None:
    for pid in pids:
        for fd, target in procfs.open_files(pid):
            why = obstacle(target)
            if why:
                return f"{_named(pid)} has file descriptor {fd} on {why}"
    return None


def _mapped_file(pids: Sequence[int]) -> str | None:
    for pid in pids:
        lines = procfs.text(pid, "maps").splitlines()
        for target in {path for line in lines for path in line.split(maxsplit=5)[5:]}:
            why = obstacle(target)
            if why:
                return f"{_named(pid)} has mapped {why}"
    return None


def _tcp_connection(pids: Sequence[int]) -> str | None:
    """Find a TCP connection whose other end is not in the container."""
    owners = sockets.owners(pids)
    for pid in sockets.one_of_each_network(pids):
        table = sockets.tcp(pid)
        holders = {(it.local, it.remote): it.inode for it in table if it.inode}
        for it in table:
            if it.inode in owners and it.connected and not sockets.inside(it, holders, owners):
                return (
                    f"{_named(owners[it.inode])} has a TCP connection from {it.local} to"
                    f" {it.remote} outside the container; let it close the connection first"
                )
    return None


def _bound_address(pids: Sequence[int]) -> str | None:
    """Find a TCP socket bound to an address that the container will not have after a restore."""
    owners = sockets.owners(pids)
    for pid in sockets.one_of_each_network(pids):
        for it in sockets.tcp(pid):
            address = it.local.address
            if it.inode in owners and not (address.is_loopback or address.is_unspecified):
                return (
                    f"{_named(owners[it.inode])} has a TCP socket bound to {it.local}, which the"
                    " container may not have when it goes on; bind it to 0.0.0.0 or to 127.0.0.1"
                )
    return None


def _unix_connection(pids: Sequence[int]) -> str | None:
    """Find a connected unix socket whose other end is not in the container."""
    owners = sockets.owners(pids)
    here = os.getpid()  # a connection is listed where it began
    for pid in sockets.one_of_each_network([*pids, here]):
        for inode, peer in sockets.unix_peers(pid):
            if inode in owners and peer not in owners:
                paths = (sockets.unix_path(pid, it) for it in (peer, inode))
                path = next(filter(None, paths), "without a path")
                return (
                    f"{_named(owners[inode])} is connected by the unix socket {path} to a process"
                    " outside the container; let it close the connection first"
                )
    return None


def _linked_elsewhere(pids: Sequence[int]) -> str | None:
    """Find a file in use under a name that it has lost, while it has others.

    CRIU links it anew for the time of a dump only (`link-remap`), so that no copy of the files
    has that name, which a restore would need. Those of a tmpfs are seen to (relinked.py).
    """
    for pid in pids:
        mounts = procfs.text(pid, "mountinfo").splitlines()
        held = {it.split()[2] for it in mounts if " - tmpfs " in it}
        for name, found in procfs.lost_files(pid):
            on_disk = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}" not in held
            linked = found.st_nlink and stat.S_ISREG(found.st_mode)
            if linked and on_disk and not _is_of_image(pid, found):
                return (
                    f"{_named(pid)} uses {name}, which was removed and has other names still;"
                    " let the process close it first"
                )
    return None


def _is_of_image(pid: int, found: os.stat_result) -> bool:
    """Tell whether a removed file is in a lower layer only, which counts its links still.

    CRIU cannot link such a file anew, and takes it along as one that has no name at all.
    """
    with procfs.Vanishing():
        upper, root = overlay_upper(pid), Path(f"/proc/{pid}/root").stat()
        if found.st_dev != root.st_dev or upper is None or not upper.is_dir():
            return False
        return found.st_ino not in _inodes(upper)
    return True


def _inodes(folder: Path) -> Iterator[int]:
    """Yield those of all that is in a folder, some of which may go meanwhile."""
    for within, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                yield Path(within, name).lstat().st_ino


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


def _named(pid: int, thread: int | None = None) -> str:
    process = f"process {pid} ({procfs.text(pid, 'comm').strip()})"
    return process if thread in {None, pid} else f"thread {thread} of {process}"
