"""What cannot be saved is found in real processes, and what can be is let through."""

import errno
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from spotrun.images.errors import NotCapturable
from spotrun.runtime import preflight

_LIMIT = 5.0
_UNSHARE = "import ctypes, socket, sys; assert ctypes.CDLL(None).unshare(0x40000000) == 0"
_EXAMINE_AS = """
import os, sys
from spotrun.images.errors import NotCapturable
from spotrun.runtime import preflight
os.setuid(int(sys.argv[2]))
try:
    preflight.examine("j", [int(sys.argv[1])])
except NotCapturable as error:
    print(error)
"""
_MAP_SECRETLY = """
import mmap, os
fd = syscall(447, 0)
os.ftruncate(fd, 4096)
mapped = mmap.mmap(fd, 4096)
os.closerange(3, 99)
"""


@pytest.fixture
def start() -> Iterator[Callable[..., int]]:
    """Start Python code that ends with the word `ready`; it and its children end with the test."""
    children = []

    def started(code: str, *arguments: object) -> int:
        wait = "\nimport time\nprint('ready', flush=True)\ntime.sleep(60)\n"
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code) + wait, *map(str, arguments)],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        return child.pid

    yield started
    for child in children:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


@pytest.fixture
def outside() -> Iterator[socket.socket]:
    """Serve on the loopback without belonging to a container."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def _refusal(*pids: int) -> str:
    with pytest.raises(NotCapturable) as refused:
        preflight.examine("j", pids)
    said = str(refused.value)
    assert said.startswith("job 'j' cannot be saved: ")
    return said


def test_connection_to_the_outside_is_refused_with_its_addresses(
    start: Callable[..., int], outside: socket.socket
) -> None:
    """Process and both ends are named."""
    port = outside.getsockname()[1]
    pid = start(
        "import socket, sys; s = socket.create_connection(('127.0.0.1', sys.argv[1]))", port
    )
    accepted, (_, remote) = outside.accept()
    with accepted:
        said = _refusal(pid)
    assert f"process {pid} (python" in said
    assert f"from 127.0.0.1:{remote} to 127.0.0.1:{port} outside the container" in said


def test_half_closed_connection_to_the_outside_is_refused(
    start: Callable[..., int], outside: socket.socket
) -> None:
    """The address it is bound to may not exist on another host."""
    code = "import socket, sys; s = socket.create_connection(('127.0.0.1', sys.argv[1]))"
    pid = start(f"{code}; s.shutdown(socket.SHUT_WR)", outside.getsockname()[1])
    accepted, _ = outside.accept()
    with accepted:
        assert "TCP connection" in _refusal(pid)


@pytest.mark.parametrize("address", ["127.0.0.1", "::"])
def test_connection_between_processes_of_the_container_is_let_through(
    start: Callable[..., int], address: str
) -> None:
    """Also when one end is an IPv6 socket that has accepted IPv4."""
    code = """
    import os, socket, sys, time
    server = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
    server.bind((sys.argv[1], 0))
    server.listen()
    if os.fork() == 0:
        port = server.getsockname()[1]
        server.close()
        client = socket.create_connection(("127.0.0.1", port))
        time.sleep(60)
    accepted = server.accept()
    """
    pid = start(code, address)
    (client,) = _children(pid)
    preflight.examine("j", [pid, client])
    assert f"process {pid} " in _refusal(pid)
    assert f"process {client} " in _refusal(client)


def test_left_over_end_of_a_connection_inside_is_let_through(start: Callable[..., int]) -> None:
    """On the loopback nobody else can be at the other end, which is closed."""
    code = """
    import socket
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    server.accept()[0].close()
    """
    preflight.examine("j", [start(code)])


def test_unix_connection_to_the_outside_is_refused_with_its_path(
    start: Callable[..., int], tmp_path: Path
) -> None:
    """The path is the one that the server on the host has."""
    path = str(tmp_path / "x.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        code = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])"
        pid = start(code, path)
        accepted, _ = server.accept()
        with accepted:
            said = _refusal(pid)
    assert f"process {pid} (python" in said
    assert f"is connected by the unix socket {path} to a process outside" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace is made by root")
def test_unix_connection_out_of_a_network_namespace_is_refused(
    start: Callable[..., int], tmp_path: Path
) -> None:
    """A container has its own, which this process only visits."""
    path, here = str(tmp_path / "x.sock"), Path("/proc/thread-self/ns/net").readlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        code = "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])"
        pid = start(f"{_UNSHARE}; {code}", path)
        accepted, _ = server.accept()
        with accepted:
            assert f"is connected by the unix socket {path} to" in _refusal(pid)
    assert Path("/proc/thread-self/ns/net").readlink() == here


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace is made by root")
def test_unix_connection_into_a_network_namespace_is_refused(
    start: Callable[..., int], tmp_path: Path
) -> None:
    """The kernel lists an accepted socket in the namespace of the one that connected."""
    path = str(tmp_path / "x.sock")
    code = """
    import threading
    server = socket.socket(socket.AF_UNIX)
    server.bind(sys.argv[1])
    server.listen()
    accepted = []
    def serve():
        accepted.append(server.accept()[0])
        accepted[0].send(b"x")
    threading.Thread(target=serve).start()
    """
    pid = start(_UNSHARE + textwrap.dedent(code), path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.recv(1)
        said = _refusal(pid)
    assert f"is connected by the unix socket {path} to" in said


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("syscall(425, 8, ctypes.create_string_buffer(120))", "an io_uring,"),
        ("syscall(447, 0)", "secret memory (memfd_secret),"),
        (_MAP_SECRETLY, "has mapped secret memory (memfd_secret),"),
    ],
)
def test_what_criu_cannot_save_is_refused_by_name(
    start: Callable[..., int], code: str, named: str
) -> None:
    """A mapping counts when its file descriptor is closed, too."""
    pid = start("import ctypes; syscall = ctypes.CDLL(None).syscall; " + code.lstrip())
    said = _refusal(pid)
    assert f"process {pid} (python" in said
    assert named in said


@pytest.mark.parametrize(
    "target",
    [
        "anon_inode:[perf_event]",
        "anon_inode:[userfaultfd]",
        "anon_inode:bpf-prog",
        "anon_inode:[what-comes-next]",
        "/dev/nvidia0",
        "/dev/nvidiactl",
        "/dev/fuse",
        "/dev/dri/renderD128",
    ],
)
def test_file_unknown_to_criu_is_an_obstacle(target: str) -> None:
    """It is named as /proc names it."""
    assert (preflight.obstacle(target) or "").startswith(target)


@pytest.mark.parametrize(
    "target",
    [
        "/dev/null",
        "/dev/pts/0",
        "/dev/shm/sem.x (deleted)",
        "/memfd:x (deleted)",
        "/home/nvidia0",
        "anon_inode:[pidfd]",
        "pipe:[1]",
        "[heap]",
    ],
)
def test_file_known_to_criu_is_no_obstacle(target: str) -> None:
    """Ordinary files, pipes and the anonymous inodes that CRIU knows."""
    assert preflight.obstacle(target) is None


def test_ordinary_program_is_let_through(start: Callable[..., int]) -> None:
    """Listeners, pipes, socket pairs, memfds, event loops, timers, pidfds, threads, a zombie."""
    code = """
    import asyncio, mmap, os, socket, subprocess, threading, time, ctypes
    kept = [socket.create_server(("127.0.0.1", 0)), socket.socketpair(), os.pipe()]
    kept += [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET), asyncio.new_event_loop()]
    kept += [os.memfd_create("m"), os.eventfd(0), mmap.mmap(-1, 4096), os.pidfd_open(os.getpid())]
    kept += [ctypes.CDLL(None).timerfd_create(0, 0), ctypes.CDLL(None).inotify_init()]
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    if os.fork() == 0:
        os._exit(0)
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    """
    pid = start(code)
    preflight.examine("j", [pid, *_children(pid)])


def test_traced_process_is_refused_with_its_tracer(start: Callable[..., int]) -> None:
    """PTRACE_TRACEME makes this test the tracer."""
    pid = start("import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)")
    assert f"process {pid} (python" in _refusal(pid)
    assert f"is traced by process {os.getpid()} (" in _refusal(pid)


@pytest.mark.parametrize("kind", ["user", "group"])
def test_process_of_another_user_is_refused_where_root_may_not_read_its_limits(
    start: Callable[..., int], kind: str
) -> None:
    """CRIU would fail in the middle of the dump."""
    pid = start(f"import os; os.set{kind[0]}id(1000)")
    argv = ["setpriv", "--bounding-set=-sys_resource", sys.executable, "-c", _EXAMINE_AS]
    said = subprocess.run([*argv, str(pid), "0"], check=True, capture_output=True, text=True).stdout
    reason = rf"runs as {kind} 1000, and root on this host lacks CAP_SYS_RESOURCE"
    assert re.search(rf"process {pid} \(python.*\) {reason}", said)


def test_thread_in_an_endless_uninterruptible_wait_is_refused(
    start: Callable[..., int], tmp_path: Path
) -> None:
    """A vfork is one: its child hangs before exec, opening a pipe that nobody writes to."""
    code = """
    import os, sys, threading
    os.mkfifo(sys.argv[1])
    actions = [(os.POSIX_SPAWN_OPEN, 5, sys.argv[1], os.O_RDONLY, 0)]
    spawn = lambda: os.posix_spawn(sys.executable, ["x"], {}, file_actions=actions)
    threading.Timer(0.05, spawn).start()
    """
    pid = start(code, tmp_path / "fifo")
    stuck = _wait_for_state_d(pid)
    begun = time.monotonic()
    said = _refusal(pid)
    assert time.monotonic() - begun < 2
    assert f"thread {stuck} of process {pid} (python" in said
    assert "in state D" in said


def test_process_that_is_gone_is_skipped() -> None:
    """Jobs start and end processes all the time."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    preflight.examine("j", [child.pid])


@pytest.mark.parametrize("ends", [True, False])
def test_namespace_of_a_process_that_ends_just_then_is_not_forbidden(
    monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    """Though the kernel says so; that of one that is there is."""
    with subprocess.Popen(["sleep", "100"]) as child:
        forbidden = f"/proc/{child.pid}/ns/net"
        readlink = Path.readlink

        def late(self: Path) -> Path:
            if str(self) != forbidden:
                return readlink(self)
            if ends:
                child.kill()
                child.wait()
            raise PermissionError(errno.EACCES, "Permission denied", forbidden)

        monkeypatch.setattr(Path, "readlink", late)
        if ends:
            preflight.examine("j", [child.pid])
            assert child.returncode == -signal.SIGKILL
        else:
            assert f"{forbidden} cannot be read" in _refusal(child.pid)
        child.kill()


def test_process_that_cannot_be_looked_at_is_refused() -> None:
    """Only root sees what the processes of others hold, like those of pid 1."""
    user = os.geteuid() or 65534
    argv = [sys.executable, "-c", _EXAMINE_AS, "1", str(user)]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert said == "job 'j' cannot be saved: /proc/1/fd cannot be read; run spotrun as root\n"


def _spec(*namespaces: str) -> dict[str, Any]:
    return {"linux": {"namespaces": [{"type": kind} for kind in namespaces]}}


def test_usual_specification_is_let_through() -> None:
    """Engines give a container all namespaces of its own, some of them made beforehand."""
    spec = _spec("pid", "ipc", "uts", "mount", "cgroup")
    spec["linux"]["namespaces"].append({"type": "network", "path": "/run/netns/x"})
    preflight.specification("j", spec)


@pytest.mark.parametrize(
    ("namespaces", "option"),
    [
        (("ipc", "network"), "--pid=host"),
        (("pid", "network"), "--ipc=host"),
        (("pid", "ipc"), "--network=host"),
    ],
)
def test_namespace_of_the_host_is_refused_with_its_option(
    namespaces: tuple[str, ...], option: str
) -> None:
    """What the container does there would concern the host."""
    with pytest.raises(NotCapturable, match=f"run it without {option}$"):
        preflight.specification("j", _spec("mount", *namespaces))


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _wait_for_state_d(pid: int) -> int:
    """Return the first thread that gets into it."""
    deadline = time.monotonic() + _LIMIT
    while time.monotonic() < deadline:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            if "State:\tD" in (thread / "status").read_text():
                return int(thread.name)
        time.sleep(0.01)
    raise TimeoutError(f"no thread of {pid} is in state D")


_REMOVE = """
import os, sys
kept = open(sys.argv[1], "w")
if len(sys.argv) > 2:
    os.link(sys.argv[1], sys.argv[2])
os.unlink(sys.argv[1])
"""


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """Give a folder that is on no tmpfs."""
    with TemporaryDirectory(dir="/var/tmp") as folder:  # it is as private as others
        yield Path(folder)


def test_open_file_that_has_only_other_names_is_refused(
    start: Callable[..., int], on_disk: Path
) -> None:
    """A restore would look for a name that CRIU has made for the time of the dump only."""
    pid = start(_REMOVE, on_disk / "gone", on_disk / "other")
    with pytest.raises(NotCapturable, match="gone, which was removed and has other names"):
        preflight.examine("j", [pid])


def test_open_file_without_any_name_is_let_through(
    start: Callable[..., int], on_disk: Path
) -> None:
    """CRIU takes it along."""
    preflight.examine("j", [start(_REMOVE, on_disk / "gone")])
