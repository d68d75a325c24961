"""A live job moves between hosts and does not notice."""

import pytest

from tests.conftest import Hosts
from tests.e2e.jobs import await_end, await_lines, lines, migrate, start, status
from tests.lab.host import Engine, Host
from tests.lab.images import archive, name

pytestmark = pytest.mark.lab

_LOOK = """
stat -c '%n|%F|%a|%u:%g|%h' /made /made/* /data/*
du -k /made/sparse; cat /data/2; readlink /made/symbolic; tail -n 1 /proc/1/fd/5
"""


def test_counter_survives_three_migrations(hosts: Hosts, engine: Engine) -> None:
    """Every number once in the joined logs, the root file system right, its own exit code."""
    a, b = hosts(2, engine=engine)
    script = ("sh", "/jobs/count.sh", "10000", "7")
    start(a, "count", "busybox", *script, options=("--cap-add=MKNOD",))
    await_lines(a, "count", 3)
    before = _files(a)[:-1]
    assert "/made|directory|750|7:8|2" in before
    assert "/made/null|character special file|644|0:0|1" in before
    assert not any(line.startswith("/data/1") for line in before)
    for source, target in ((a, b), (b, a), (a, b)):
        await_lines(source, "count", len(lines(source, "count")) + 5)
        migrate(source, target, "count")
        assert status(source, "count") == f"moved to ssh://root@{target.name}"
        assert status(target, "count") == "running"
    assert _files(b)[:-1] == before
    b.run([b.engine, "exec", "count", "touch", "/end"])
    assert await_end(b, "count") == 7
    written = lines(b, "count")
    assert len(written) >= 18
    assert written == [str(number) for number in range(len(written))]
    errors = b.run(["spotrun", "logs", "count"]).stderr.splitlines()
    assert errors == [f"error {number}" for number in range(len(written))]


def _files(host: Host) -> list[str]:
    """Return what the job has made of its root file system; last comes a deleted file's end.

    The file that it writes anew with every number is empty for an instant, and left out.
    """
    found = host.run([host.engine, "exec", "count", "sh", "-c", _LOOK]).stdout.splitlines()
    return [line for line in found if not line.startswith("/made/n|")]


@pytest.mark.parametrize(
    ("engine", "workers", "options"),
    [("podman", "0", ()), ("podman", "2", ("--shm-size=256m",)), ("docker", "0", ())],
    ids=["plain", "workers", "docker"],
)
def test_training_is_bit_identical(
    hosts: Hosts, engine: Engine, workers: str, options: tuple[str, ...]
) -> None:
    """Loss of every step and hash of the weights are those of a run that never moved."""
    a, b = hosts(2, images=("torch",), engine=engine)
    words = ("python3", "/jobs/train.py", "150", "256", workers, "0.2")
    start(a, "still", "torch", *words, options=options)
    start(a, "moving", "torch", *words, options=options)
    await_lines(a, "moving", 10)
    migrate(a, b, "moving")
    await_lines(b, "moving", 25)
    migrate(b, a, "moving")
    assert await_end(a, "moving") == 0
    assert await_end(a, "still") == 0
    moved = lines(a, "moving")
    assert len(moved) == 151
    assert moved == lines(a, "still")


def test_job_goes_from_docker_to_podman_and_back(hosts: Hosts) -> None:
    """Files, volumes, /dev/shm, published port and the log come along each time."""
    a, b = hosts(2)
    a.use_docker({name("busybox"): archive("busybox")})
    start(a, "count", "busybox", "sh", "-c", _ODDS + _COUNT, options=_OPTIONS)
    for source, target in ((a, b), (b, a), (a, b)):
        await_lines(source, "count", len(lines(source, "count")) + 5)
        before = _odds(source)
        assert before.splitlines() == ["kept"] * 5
        migrate(source, target, "count")
        source.run([source.engine, "volume", "rm", "named"])  # one that is there stays untouched
        assert _odds(target) == before
        await_lines(target, "count", len(lines(target, "count")) + 3)
        assert _served(target) == "kept\n"
    written = lines(b, "count")
    assert written == [str(number) for number in range(len(written))]
    for host in (a, b):
        assert (
            "spotrun"
            not in host.run(["sh", "-c", "mount | grep /spotrun-[se]"], check=False).stdout
        )


_OPTIONS = (
    "--init", "--publish=8080:80", "--shm-size=32m", "--tmpfs=/t:size=4m",
    "--volume=named:/named", "--volume=/unnamed",
)  # fmt: skip
_ODDS = """
for file in /x /dev/shm/x /t/x /named/x /unnamed/x; do echo kept > $file; done
(while :; do nc -l -p 80 < /x; done) &
"""
_COUNT = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.2; done"


def _odds(host: Host) -> str:
    files = ("/x", "/dev/shm/x", "/t/x", "/named/x", "/unnamed/x")
    return host.run([host.engine, "exec", "count", "cat", *files]).stdout


def _served(host: Host) -> str:
    """Return what the job sends to who connects to its published port."""
    return host.run(["bash", "-c", "cat < /dev/tcp/127.0.0.1/8080"]).stdout
