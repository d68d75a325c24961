"""Two real dumps of the running job, some steps apart: what is stored in several ways."""

from dataclasses import dataclass

from tests.bench import job
from tests.bench.contenders import bare_dump, inspected
from tests.lab.host import Host

_PLACE = "/run/bench-dumps"


@dataclass(frozen=True, slots=True)
class Dumps:
    """Folders on the host, in memory, and their bytes."""

    first: str
    second: str
    bytes: int
    """Of the second."""


def take(host: Host, container: str) -> Dumps:
    """Make both: process images and changed files, as spotrun stages them."""
    upper = inspected(host, container, "{{.GraphDriver.Data.UpperDir}}")
    folders = [f"{_PLACE}/{name}" for name in ("first", "second")]
    for folder in folders:
        job.await_steps(host, container)
        bare_dump(host, container, folder)
        host.run(["mkdir", f"{folder}/trees"])
        host.run(["tar", "--create", f"--file={folder}/trees/0.tar", f"--directory={upper}", "."])
    size = host.run(["du", "--summarize", "--bytes", folders[1]]).stdout.split()[0]
    return Dumps(folders[0], folders[1], int(size))


def remove(host: Host) -> None:
    """Give their memory back."""
    host.run(["rm", "-r", _PLACE])
