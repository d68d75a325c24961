"""The lab's hosts are what the other tests take them for, and vanish."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import pytest

from tests.conftest import Hosts
from tests.lab.host import Host, wait_until
from tests.lab.images import archive, name
from tests.lab.lab import Lab
from tests.lab.root import REPOSITORY
from tests.lab.shell import LabError

pytestmark = pytest.mark.lab

_COUNTER = "i=0; while true; do i=$((i+1)); echo $i >/new; mv /new /count; sleep 0.05; done"
_NAMESPACES = "cgroup ipc mnt net pid uts".split()


def _fetch(url: str) -> list[str]:
    return ["busybox", "wget", "-q", "-T", "5", "-O", "-", url]


def _traces() -> set[str]:
    """Return what labs leave on this machine while they run."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found = {f"mount {line}" for line in mounts}
    found |= {f"link {path.name}" for path in Path("/sys/class/net").iterdir()}
    cgroups = Path("/sys/fs/cgroup").rglob("spotrun-lab-*")
    return found | {f"cgroup {path}" for path in cgroups}


def _processes(disk: Path) -> list[str]:
    """Return what runs on a host, be it in a container or not, or did not end with it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        with contextlib.suppress(OSError):  # it has ended
            if f"/spotrun-lab-{disk.name}" in path.read_text():
                found.append(path.with_name("comm").read_text().strip())
    return found


def test_host_has_namespaces_and_files_of_its_own(pair: tuple[Host, Host]) -> None:
    """Each of its namespaces is another than this machine's and than the other host's."""
    a, b = pair
    for namespace in _NAMESPACES:
        links = {Path(f"/proc/{pid}/ns/{namespace}").readlink() for pid in ("self", a.pid, b.pid)}
        assert len(links) == 3, namespace
    assert a.run(["hostname"]).stdout == "host-a\n"
    assert a.run(["cat", "/proc/1/comm"]).stdout == "catatonit\n"
    assert a.run(["stat", "-fc%T", "/sys/fs/cgroup"]).stdout == "cgroup2fs\n"
    assert a.run(["cat", "/proc/self/cgroup"]).stdout.splitlines()[-1] == "0::/init"
    a.path("/etc/only-here").write_text("a\n")
    assert a.run(["cat", "/etc/only-here"]).stdout == "a\n"
    assert not b.path("/etc/only-here").exists()
    for place in ("containers", "docker", "spotrun"):
        kind = a.run(["stat", "-fc%T", f"/var/lib/{place}"]).stdout
        assert kind != "overlayfs\n"


def test_command_has_a_clean_environment(
    pair: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It inherits three file descriptors and nothing of this process's variables."""
    monkeypatch.setenv("STRAY", "1")
    with Path("/dev/null").open() as stray:
        os.set_inheritable(stray.fileno(), True)  # noqa: FBT003
        listing = pair[0].run(["ls", "-l", "/proc/self/fd"]).stdout
    fds = re.findall(r" (\d+) -> (\S+)", listing)
    assert [number for number, where in fds if where != "/proc"][:3] == ["0", "1", "2"]
    assert len(fds) == 4, listing
    assert "STRAY" not in pair[0].run(["env"]).stdout


def test_failure_tells_command_status_and_output(pair: tuple[Host, Host]) -> None:
    """A failed command raises with all that helps, unless told not to."""
    script = ["sh", "-c", "echo to stdout; echo to stderr >&2; exit 3"]
    with pytest.raises(LabError, match=r"(?s)host-a.*sh -c.*3.*to stdout.*to stderr"):
        pair[0].run(script)
    assert pair[0].run(script, check=False).returncode == 3


def test_timeout_leaves_nothing_running(pair: tuple[Host, Host]) -> None:
    """A command that takes too long is killed on the host as well."""
    with pytest.raises(subprocess.TimeoutExpired):
        pair[0].run(["sleep", "4321"], timeout=0.2)
    wait_until(["sh", "-c", "! pgrep -fx 'sleep 4321'"], pair[0], seconds=5)


def test_signal_reaches_a_started_command(pair: tuple[Host, Host]) -> None:
    """A trap in the command sees it."""
    script = "trap 'echo got it; exit 5' TERM; echo ready; while true; do sleep 0.05; done"
    with pair[0].popen(["sh", "-c", script]) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        pair[0].signal(child, signal.SIGTERM)
        assert child.stdout.readline() == "got it\n"
        assert child.wait(5) == 5


def test_hosts_reach_each_other(pair: tuple[Host, Host]) -> None:
    """By name, by ping and by ssh in both directions, and nothing else."""
    for here, there in (pair, pair[::-1]):
        here.run(["ping", "-c1", "-W2", there.name])
        assert here.run(["ssh", f"root@{there.address}", "hostname"]).stdout == f"{there.name}\n"
    started = time.monotonic()
    assert pair[0].run(["ping", "-c1", "-W5", "192.0.2.1"], check=False).returncode != 0
    assert pair[0].run(["getent", "hosts", "nowhere.example"], check=False).returncode != 0
    assert time.monotonic() - started < 3


def test_network_is_cut_and_mended(pair: tuple[Host, Host]) -> None:
    """While it is cut no packet passes."""
    a, b = pair
    ping = ["ping", "-c1", "-W1", b.address]
    b.cut_network()
    assert a.run(ping, check=False).returncode != 0
    b.mend_network()
    wait_until(ping, a)


def test_podman_publishes_a_port_to_the_other_host(hosts: Hosts) -> None:
    """A container on the bridge network answers there."""
    a, b = hosts(2)
    serve = "echo hello >/tmp/index.html; exec httpd -f -p 80 -h /tmp"
    a.run(["podman", "run", "-d", "--publish=8080:80", name("busybox"), "sh", "-c", serve])
    address = f"http://{a.name}:8080/"
    wait_until(_fetch(address), b)
    assert b.run(_fetch(address)).stdout == "hello\n"


@pytest.mark.parametrize("engine", ["podman", "docker"])
def test_engine_runs_a_loaded_image(hosts: Hosts, engine: Literal["podman", "docker"]) -> None:
    """A host without the shared store has no image until it is loaded; its ID is the same."""
    a, b = hosts(2, images=())
    identities = []
    for host in (a, b):
        if engine == "docker":
            host.start_docker()
        assert host.run([engine, "images", "--quiet"]).stdout == ""
        host.load_image(archive("busybox"), name("busybox"), engine=engine)
        inspect = [engine, "image", "inspect", "--format={{.Id}}", name("busybox")]
        identities.append(host.run(inspect).stdout)
    assert identities[0] == identities[1]
    done = a.run([engine, "run", "--rm", name("busybox"), "cat", "/data/1"])
    assert (done.stdout, done.stderr) == ("from the image: 1\n", "")


def test_limits_work_on_cgroup_v1(hosts: Hosts) -> None:
    """The container sees its memory limit, and exceeding it kills."""
    (host,) = hosts(1, layout="v1")
    limited = ["podman", "run", "--rm", "--memory=32m", name("busybox")]
    seen = host.run([*limited, "cat", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]).stdout
    assert seen == f"{32 << 20}\n"
    eat = ["dd", "if=/dev/zero", "of=/dev/null", "bs=100M", "count=1"]
    assert host.run([*limited, *eat], check=False).returncode == 137


def test_criu_dumps_and_restores_a_container(hosts: Hosts) -> None:
    """A counter goes on from where it was."""
    (host,) = hosts(1)
    assert "Looks good" in host.run(["criu", "check"]).stdout + host.run(["criu", "check"]).stderr
    host.path("/etc/lab-criu.conf").write_text("manage-cgroups=ignore\n")
    options = [
        "--network=none",
        "--name=counter",
        "--annotation=org.criu.config=/etc/lab-criu.conf",
    ]
    host.run(["podman", "run", "-d", *options, name("busybox"), "sh", "-c", _COUNTER])
    inspect = ["podman", "inspect", "--format={{.Id}} {{.OCIConfigPath}}", "counter"]
    identity, config = host.run(inspect).stdout.split()
    merged = host.run(["podman", "mount", "counter"]).stdout.strip()
    wait_until(["test", "-s", f"{merged}/count"], host)
    runc, image = ["runc", "--root=/run/runc"], "--image-path=/var/lib/spotrun/image"
    host.run([*runc, "checkpoint", image, identity])
    reached = int(host.path(f"{merged}/count").read_text())
    detached = ["--detach", f"--bundle={Path(config).parent}"]
    restore = " ".join([*runc, "restore", image, *detached, "again", "</dev/null >/dev/null 2>&1"])
    host.run(["sh", "-c", restore])
    wait_until(["sh", "-c", f"test $(cat {merged}/count) -gt {reached + 5}"], host)
    assert host.run([*runc, "list", "--quiet"]).stdout == "again\n"


def test_power_comes_back_to_the_same_disk(hosts: Hosts) -> None:
    """Nothing of the host runs while it is off; files are there when it is on again."""
    a, b = hosts(2)
    a.run(["podman", "run", "-d", "--name=job", name("busybox"), "sleep", "1000"])
    a.path("/etc/kept").write_text("kept\n")
    a.path("/var/lib/spotrun/kept").write_text("kept\n")
    assert "sleep" in _processes(a.disk)
    a.power_off()
    assert _processes(a.disk) == []
    with pytest.raises(LabError, match="is off"):
        a.run(["true"])
    assert b.run(["ping", "-c1", "-W1", a.address], check=False).returncode != 0
    a.power_on()
    assert a.run(["cat", "/etc/kept", "/var/lib/spotrun/kept"]).stdout == "kept\nkept\n"
    assert b.run(["ssh", a.name, "podman", "ps", "-a", "--format={{.Names}}"]).stdout == "job\n"


def test_small_file_system_is_full_soon(pair: tuple[Host, Host]) -> None:
    """Writing more than fits says so."""
    pair[0].fill("/mnt/small", 1)
    write = ["dd", "if=/dev/zero", "of=/mnt/small/file", "bs=1M", "count=2"]
    with pytest.raises(LabError, match="No space left on device"):
        pair[0].run(write)
    pair[0].run(["umount", "/mnt/small"])


@pytest.mark.parametrize("layout", ["v2", "v1"])
def test_nothing_is_left_of_a_lab(layout: Literal["v1", "v2"]) -> None:
    """No process, mount, link, cgroup or folder, though containers ran."""
    before = _traces()
    with Lab() as lab:
        (host,) = lab.start(1, layout=layout)
        host.run(["podman", "run", "-d", name("busybox"), "sleep", "1000"])
        assert {"catatonit", "sshd", "conmon"} <= set(_processes(host.disk))
        assert _traces() - before
    assert _processes(host.disk) == []
    left = _traces() - before
    others = {it for it in left if "spotrun-lab-" in it and host.disk.parent.name not in it}
    assert left - others == set(), "of this lab; others may have begun meanwhile"
    assert not host.disk.parent.exists()


_OWNER = """
import sys
from tests.lab.lab import Lab
with Lab() as lab:
    (host,) = lab.start(1)
    host.run(["podman", "run", "-d", "localhost/lab/busybox:1", "sleep", "1000"])
    print(host.disk, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_lab_whose_owner_is_killed(number: signal.Signals) -> None:
    """The processes go with it, the rest when the next lab starts."""
    before = _traces()
    owner = [sys.executable, "-c", _OWNER]
    pipe = subprocess.PIPE
    with subprocess.Popen(owner, stdin=pipe, stdout=pipe, stderr=pipe, cwd=REPOSITORY) as process:
        assert process.stdout
        disk = Path(process.stdout.readline().decode().strip())
        assert _processes(disk)
        process.send_signal(number)
        process.wait(20)
    deadline = time.monotonic() + 5
    while _processes(disk) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _processes(disk) == []
    with Lab():
        assert not disk.parent.exists()
        assert {trace for trace in _traces() - before if disk.parent.name in trace} == set()


def test_two_labs_at_once(hosts: Hosts) -> None:
    """They have the same addresses and do not see each other."""
    (mine,) = hosts(1)
    with Lab() as other:
        (theirs,) = other.start(1)
        assert theirs.address == mine.address
        mine.path("/run/mark").write_text("mine")
        assert not theirs.path("/run/mark").exists()
