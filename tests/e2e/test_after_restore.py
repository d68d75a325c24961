"""After a restore a container is as the first run made it, to the engine and from inside."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.conftest import Hosts
from tests.e2e.jobs import spotrun
from tests.lab.host import Engine, Host, wait_until
from tests.lab.images import name

pytestmark = pytest.mark.lab

_SERVE: Final = "while :; do nc -l -p 80 -e echo hi; done"
_JOBS: Final = {
    "plain": (),
    "rights": (
        *"--cap-drop=CHOWN --cap-add=NET_ADMIN --security-opt=no-new-privileges".split(),
        *"--group-add=102 --read-only --tmpfs=/t:size=8m,mode=1777 --oom-score-adj=300".split(),
        *"--ulimit=nofile=100:200 --ulimit=core=0 --device=/dev/zero:/dev/z --shm-size=10m".split(),
        *"--sysctl=net.ipv4.tcp_keepalive_time=99 --sysctl=kernel.msgmax=9999 -w /t".split(),
    ),
    "service": (
        *"--network=own --network-alias=alias --hostname=inside --publish=8080:80 -l a=b".split(),
        *"--restart=on-failure:3 --stop-signal=INT --stop-timeout=3 --dns-option=ndots:2".split(),
        *"--add-host=there:1.2.3.4 -e A=b --health-cmd=true --health-interval=1s".split(),
    ),
    "fleeting": ("--rm", "-t", "--init"),
}
_LIMITS: Final = (
    *"--memory=64m --memory-reservation=32m --memory-swap=80m --cpus=0.5 --cpu-shares=300".split(),
    *"--pids-limit=50 --cpuset-cpus=0".split(),
)
_FILES: Final = (
    *(f"memory/memory.{it}limit_in_bytes" for it in ("", "soft_", "memsw.")),
    *"cpu/cpu.cfs_quota_us cpu/cpu.shares pids/pids.max cpuset/cpuset.cpus".split(),
    "devices/devices.list",
)
_LOOK: Final = {
    "limits": "cat /proc/1/limits",
    "rights": "grep -E 'Cap|Seccomp|NoNew|Uid|Gid|Groups' /proc/1/status",
    "oom": "cat /proc/1/oom_score_adj",
    "environment": "tr '\\0' '\\n' </proc/1/environ | sort",
    "own limits": "cat /proc/self/limits",
    "own rights": "id; grep -E 'Cap|Seccomp|NoNew' /proc/self/status",
    "own environment": "env -u HOSTNAME | sort",  # Podman leaves it out where it made it up
    "hostname": "hostname; grep -wo $(hostname) /etc/hosts; pwd",
    "names": "cat /etc/resolv.conf; grep there /etc/hosts",
    "cgroups": "cat /proc/1/cgroup; ls /sys/fs/cgroup",
    "mounts": "cut -d' ' -f4-6,8- /proc/1/mountinfo",
    "sizes": "df /t /dev/shm",
    "devices": "ls /dev; stat -c %t,%T /dev/z; head -c 2 /dev/z | wc -c",
    "sysctls": "cd /proc/sys/net/ipv4; cat ip_unprivileged_port_start tcp_keepalive_time"
    " ping_group_range; cat /proc/sys/kernel/msgmax",
}
"""What is looked at from inside."""
_OWN_EACH: Final = frozenset(
    "Created Pid ConmonPid StartedAt ExecIDs Log GraphDriver EndpointID SandboxID SandboxKey"
    " IPAddress MacAddress CreateCommand AttachStdout AttachStderr io.spotrun.restore"
    " io.spotrun.restored-by".split()
)
"""What two containers that are alike do not share, or what says which command made them."""


def _run(host: Host, job: str, *options: str) -> None:
    words = ["sh", "-c", f"({_SERVE}) & while :; do sleep 1; done"]
    host.run(["spotrun", "run", "-d", "--name", job, *options, name("busybox"), *words])


def _again(host: Host, job: str) -> None:
    spotrun(host, "checkpoint", job)
    spotrun(host, "restore", job)


def _inspected(host: Host, job: str) -> dict[str, str]:
    """Return what the engine shows of a container, value by value."""
    (found,) = json.loads(host.run([host.engine, "container", "inspect", job]).stdout)
    return dict(_values("", found))


def _values(path: str, found: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 # any JSON
    """Yield them by their path; variables have no order."""
    if isinstance(found, dict):
        for key, value in found.items():
            if key not in _OWN_EACH:
                yield from _values(f"{path}.{key}", value)
    elif path == ".Config.Env":
        yield path, str(sorted(it for it in found if not it.startswith("PATH=")))
    else:
        yield path, json.dumps(found)


def _seen(host: Host, job: str) -> dict[str, str]:
    """Return what is seen from inside."""
    script = "".join(f"echo '== {it}'; ({look}) 2>&1;" for it, look in _LOOK.items())
    said = host.run([host.engine, "exec", job, "sh", "-c", script]).stdout
    parts = (part.partition("\n") for part in said.split("== ")[1:])
    found = {title: text for title, _, text in parts}
    return {**found, "mounts": _mounts(found["mounts"])}


def _mounts(lines: str) -> str:
    """Leave out the device that hides a file, and the folders of the engine's overlay."""
    kept = (re.sub(" overlay .*| /proc/(keys|timer_list) .*", "", it) for it in lines.splitlines())
    return "\n".join(sorted(re.sub(r"labs/\S+?/(docker|containers)/", "", it) for it in kept))


def _limits(host: Host, job: str) -> dict[str, str]:
    """Return those that hold for its cgroups, as the kernel has them."""
    pid = host.run([host.engine, "inspect", "-f", "{{.State.Pid}}", job]).stdout.strip()
    lines = host.run(["cat", f"/proc/{pid}/cgroup"]).stdout.splitlines()
    places = {line.split(":")[1]: line.split(":")[2] for line in lines}
    paths = [f"/sys/fs/cgroup/{it.replace('/', places[it.split('/')[0]] + '/')}" for it in _FILES]
    return {it: host.run(["cat", path]).stdout for it, path in zip(_FILES, paths, strict=True)}


def _assert_same(before: dict[str, str], after: dict[str, str]) -> None:
    """Prove it, as far as ids go: each of the two has its own."""
    ids = [json.loads(it[".Id"]) for it in (before, after)]
    own = re.compile("|".join([*ids, *(it[:12] for it in ids)]))
    told = [{key: own.sub("ID", text) for key, text in it.items()} for it in (before, after)]
    for it in told:  # it goes by its first host name, too, which was the first one's id
        it.update({key: text.replace('"ID", "ID"', '"ID"') for key, text in it.items()})
    differing = {key: [it.get(key) for it in told] for key in told[0] | told[1]}
    assert {key: it for key, it in differing.items() if it[0] != it[1]} == {}


def _await_healthy(host: Host, job: str) -> None:
    if host.engine == "podman":  # its timers need systemd
        host.run(["podman", "healthcheck", "run", job])
    shown = f"{host.engine} inspect -f '{{{{.State.Health.Status}}}}' {job}"
    wait_until(["sh", "-c", f"[ $({shown}) = healthy ]"], host)


def test_container_is_as_the_first_run_made_it(hosts: Hosts, engine: Engine) -> None:
    """Rights, limits, names, mounts, devices, sysctls, ports, health: all that options say."""
    (host,) = hosts(1, engine=engine)
    host.run([engine, "network", "create", "own"])
    for job, options in _JOBS.items():
        _run(host, job, *options)
    time.sleep(1)
    for job in _JOBS:
        if job == "service":
            _await_healthy(host, job)
        before = _inspected(host, job) | _seen(host, job)
        _again(host, job)
        if job == "service":
            _await_healthy(host, job)
        _assert_same(before, _inspected(host, job) | _seen(host, job))
    assert host.run(["busybox", "nc", "127.0.0.1", "8080"]).stdout == "hi\n"
    for peer in ("service", "alias", "inside"):
        words = ["--rm", "--network=own", name("busybox"), "nc", peer, "80"]
        assert host.run([engine, "run", *words]).stdout == "hi\n", peer
    host.run(["spotrun", "kill", "fleeting"])
    wait_until(["sh", "-c", f"! {engine} container inspect fleeting"], host)


def test_limits_hold_after_a_restore(hosts: Hosts, engine: Engine) -> None:
    """Of memory, processors, processes and devices; once more after a second one."""
    (host,) = hosts(1, engine=engine, layout="v1")  # the other layout has no limits
    _run(host, "limited", *_LIMITS)
    before = _inspected(host, "limited") | _limits(host, "limited")
    for _ in range(2):
        _again(host, "limited")
        _assert_same(before, _inspected(host, "limited") | _limits(host, "limited"))
