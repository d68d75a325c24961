"""A container that an engine started by itself is a job when an annotation says so."""

from typing import Literal

import pytest

from tests.conftest import Hosts
from tests.e2e.jobs import JOBS, await_lines, lines, spotrun, status
from tests.lab.images import archive, name

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("engine", ["podman", "docker"])
def test_annotated_container_is_saved_and_goes_on(
    hosts: Hosts, engine: Literal["podman", "docker"]
) -> None:
    """Under its own name for the engine, and the job's for spotrun."""
    (host,) = hosts(1)
    if engine == "docker":
        host.start_docker()
        host.load_image(archive("busybox"), name("busybox"), engine="docker")
    spotrun(host, "install")
    plain = [engine, "run", "-d", "--name=web", "--annotation=io.spotrun.job=count"]
    options = [f"--volume={JOBS}:/jobs:ro", "--env=A=1"]
    if engine == "docker":  # Podman's own runtime is runc here, and it has hooks
        options.append("--runtime=spotrun")
    host.run([*plain, *options, name("busybox"), "sh", "/jobs/count.sh", "100000", "0"])
    assert status(host, "count") == "running"
    assert host.run(["spotrun", "inspect", "-f", "{{.Name}}", "count"]).stdout.strip("/\n") == "web"
    await_lines(host, "count", 3)
    spotrun(host, "checkpoint", "count")
    assert status(host, "count") == "stored"
    written = lines(host, "count")
    spotrun(host, "restore", "count")
    await_lines(host, "count", len(written) + 3)
    assert lines(host, "count")[: len(written)] == written
    assert host.run([engine, "ps", "--format", "{{.Names}}"]).stdout == "count\n"


def test_container_of_another_runtime_is_not_taken_on(hosts: Hosts) -> None:
    """The next command says why, once, and does its own work."""
    (host,) = hosts(1)
    spotrun(host, "install")
    annotated = ["podman", "--runtime=crun", "run", "-d", "--annotation=io.spotrun.job=count"]
    host.run([*annotated, "--name=web", name("busybox"), "sleep", "1000"])
    said = host.run(["spotrun", "ps"]).stderr
    assert "web was started by crun, whose containers cannot be saved" in said
    assert host.run(["spotrun", "ps"]).stderr == ""
    assert spotrun(host, "ps", "--all") == []
