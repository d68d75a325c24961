"""A live job moves between hosts and does not notice."""

import pytest

from tests.conftest import Hosts
from tests.e2e.jobs import await_end, await_lines, lines, migrate, start, status
from tests.lab.host import Host

pytestmark = pytest.mark.lab

_LOOK = """
stat -c '%n|%F|%a|%u:%g|%h' /made /made/* /data/*
du -k /made/sparse; cat /data/2; readlink /made/symbolic; tail -n 1 /proc/1/fd/5
"""


def test_counter_survives_three_migrations(hosts: Hosts) -> None:
    """Every number once in the joined logs, the root file system right, its own exit code."""
    a, b = hosts(2)
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
    b.run(["podman", "exec", "count", "touch", "/end"])
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
    found = host.run(["podman", "exec", "count", "sh", "-c", _LOOK]).stdout.splitlines()
    return [line for line in found if not line.startswith("/made/n|")]


@pytest.mark.parametrize(
    ("workers", "options"), [("0", ()), ("2", ("--shm-size=256m",))], ids=["plain", "workers"]
)
def test_training_is_bit_identical(hosts: Hosts, workers: str, options: tuple[str, ...]) -> None:
    """Loss of every step and hash of the weights are those of a run that never moved."""
    a, b = hosts(2, images=("torch",))
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
