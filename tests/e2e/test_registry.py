"""Snapshots leave the store and go on: through a real registry, and to and from Podman itself."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from tests.conftest import Hosts
from tests.e2e.jobs import JOBS, await_end, await_lines, lines, refused, spotrun, start
from tests.lab.host import Engine, Host, wait_until
from tests.lab.images import archive, name

pytestmark = pytest.mark.lab

_PORT: Final = 5000
_COUNT: Final = ("sh", "/jobs/count.sh", "100000", "7")
_LOOK: Final = """
stat -c '%n|%F|%a|%u:%g|%h' /made /made/* /data/*
cat /data/2; readlink /made/symbolic
"""
_HOLES: Final = "du -k /made/sparse"
"""Podman's own archives fill holes."""
_CONFIG: Final = """\
version: 0.1
storage: {filesystem: {rootdirectory: /srv/registry}}
http: {addr: "0.0.0.0:5000"}
"""
_INSECURE: Final = f"""\
[[registry]]
location = "localhost:{_PORT}"
insecure = true
"""


@contextmanager
def _served(host: Host) -> Iterator[str]:
    """Give a repository of Debian's own registry, which runs on `host`."""
    host.run(["mkdir", "-p", "/srv"])
    host.path("/srv/registry.yml").write_text(_CONFIG)
    server = "exec docker-registry serve /srv/registry.yml >/srv/registry.log 2>&1"
    with host.popen(["sh", "-c", server]) as running:
        try:
            wait_until(["sh", "-c", f"busybox wget -qO- http://127.0.0.1:{_PORT}/v2/"], host)
            yield f"oci://{host.name}:{_PORT}/team/count"
        finally:
            running.kill()


def _let_podman(host: Host) -> None:
    """Let Podman's own checkpoint and restore leave the lab's cgroups alone."""
    host.run(["mkdir", "-p", "/etc/criu"])
    host.path("/etc/criu/runc.conf").write_text("manage-cgroups=ignore\ntcp-established\n")


def _files(host: Host, container: str) -> list[str]:
    """Return what a container has made of its root file system."""
    return host.run(["podman", "exec", container, "sh", "-c", _LOOK]).stdout.splitlines()


def _podman_lines(host: Host, container: str) -> list[str]:
    return host.run(["podman", "logs", container]).stdout.splitlines()


def _await_podman(host: Host, container: str, count: int) -> list[str]:
    wait_until(
        ["sh", "-c", f"test $(podman logs {container} 2>/dev/null | wc -l) -ge {count}"], host
    )
    return _podman_lines(host, container)


def _unbroken(found: list[str]) -> None:
    assert found == [str(number) for number in range(len(found))]


def test_snapshot_goes_through_a_registry(hosts: Hosts) -> None:
    """Pushed on one host and pulled on another it goes on; a second push sends what is new."""
    a, b = hosts(2)
    volume = ("-v", "kept:/kept", "--cap-add=MKNOD")
    start(a, "count", "busybox", *_COUNT, options=volume)
    await_lines(a, "count", 5)
    before = _files(a, "count")
    a.run(["podman", "exec", "count", "sh", "-c", "echo kept > /kept/x"])
    with _served(a) as repository:
        spotrun(a, "checkpoint", "count", "--leave-running")
        first = spotrun(a, "push", "count", f"{repository}:1", "--plain-http")
        await_lines(a, "count", len(lines(a, "count")) + 3)
        spotrun(a, "checkpoint", "count")
        second = spotrun(a, "push", "count", f"{repository}:2", "--plain-http")
        assert first["snapshot"] != second["snapshot"]
        assert second["bytes"] < first["bytes"]
        saved = len(lines(a, "count"))
        pulled = spotrun(b, "pull", f"{repository}:2", "--plain-http")
        assert (pulled["job"], pulled["snapshot"]) == ("count", second["snapshot"])
    spotrun(b, "restore", "count")
    await_lines(b, "count", saved + 5)
    _unbroken(lines(b, "count"))
    assert _files(b, "count") == before
    assert b.run(["podman", "exec", "count", "sh", "-c", _HOLES]).stdout == "0\t/made/sparse\n"
    assert b.run(["podman", "exec", "count", "cat", "/kept/x"]).stdout == "kept\n"
    b.run(["podman", "exec", "count", "touch", "/end"])
    assert await_end(b, "count") == 7


def test_registry_says_no_in_one_sentence(hosts: Hosts) -> None:
    """What is not there, what cannot be reached, and what speaks no TLS."""
    (host,) = hosts(1)
    with _served(host) as repository:
        error = refused(host, "pull", f"{repository}:1", "--plain-http")
        assert (error["code"], "\n" in error["message"]) == ("SnapshotNotFound", False)
        error = refused(host, "pull", f"{repository}:1")
        assert error["code"] == "RegistryUnavailable"
        assert "--plain-http" in error["message"]
    error = refused(host, "pull", f"{repository}:1", "--plain-http")
    assert (error["code"], "\n" in error["message"]) == ("RegistryUnavailable", False)


def test_exported_snapshot_is_restored_by_podman_itself(hosts: Hosts) -> None:
    """Without spotrun it goes on, with its files, its volume and its output so far."""
    a, b = hosts(2)
    volumes = ("-v", "kept:/kept", "-v", "/unnamed", "--cap-add=MKNOD", "--shm-size=8m")
    start(a, "count", "busybox", *_COUNT, options=volumes)
    await_lines(a, "count", 5)
    before = _files(a, "count")
    script = "echo kept | tee /kept/x /unnamed/x > /dev/shm/x"
    a.run(["podman", "exec", "count", "sh", "-c", script])
    spotrun(a, "checkpoint", "count")
    saved = len(lines(a, "count"))
    said = spotrun(a, "export", "count", "/mnt/machine/count.tar.zst", "--format", "podman")
    assert said["form"] == "podman"
    assert a.run(["podman", "volume", "ls", "-q"]).stdout == "kept\n"
    assert a.run(["podman", "ps", "-aq"]).stdout == ""
    _let_podman(b)
    restore = ["podman", "container", "restore", "--import", "/mnt/machine/count.tar.zst"]
    b.run([*restore, "--file-locks"])
    found = _await_podman(b, "count", saved + 5)
    _unbroken(found)
    assert _files(b, "count") == before
    for path in ("/kept/x", "/unnamed/x", "/dev/shm/x"):
        assert b.run(["podman", "exec", "count", "cat", path]).stdout == "kept\n"
    b.run(["podman", "exec", "count", "touch", "/end"])
    assert await_end(b, "count") == 7


def test_image_that_a_registry_has_stays_out_of_the_store(hosts: Hosts, engine: Engine) -> None:
    """It is pulled from there, under whatever name the job was started; Docker is on containerd."""
    (host,) = hosts(1, images=())
    there = f"localhost:{_PORT}/team/busybox:1"
    host.path("/etc/containers/registries.conf.d/lab.conf").write_text(_INSECURE)
    if engine == "docker":
        host.use_docker({there: archive("busybox")}, containerd=True)
    else:
        host.load_image(archive("busybox"), there)
    called = "docker.io/other/name:1" if engine == "docker" else there
    remove = ["sh", "-ec", f"{engine} images --quiet | xargs {engine} rmi --force"]
    with _served(host):
        host.run([engine, "push", there])
        host.run(remove)
        host.run([engine, "pull", there])
        host.run([engine, "tag", there, called])
        job = ["-d", "--name", "count", "-v", f"{JOBS}:/jobs:ro", called, *_COUNT]
        host.run(["spotrun", "run", *job])
        await_lines(host, "count", 3)
        spotrun(host, "checkpoint", "count")
        saved = len(lines(host, "count"))
        assert list(host.path("/var/lib/spotrun/store/images").glob("*")) == []
        host.run(remove)
        spotrun(host, "restore", "count")
    await_lines(host, "count", saved + 3)


@pytest.mark.parametrize("form", ["podman", "cri"])
def test_checkpointctl_reads_what_is_exported(hosts: Hosts, form: str) -> None:
    """Engine, container, image, and the process tree out of CRIU's images."""
    (host,) = hosts(1)
    start(host, "count", "busybox", *_COUNT)
    await_lines(host, "count", 3)
    spotrun(host, "checkpoint", "count", "--leave-running")
    spotrun(host, "export", "count", "/root/count.tar", "--format", form)
    shown = host.run(["checkpointctl", "show", "/root/count.tar"]).stdout
    assert "count" in shown
    assert name("busybox") in shown
    options = ["--stats", "--ps-tree", "--mounts", "--format=json"]
    raw = host.run(["checkpointctl", "inspect", "/root/count.tar", *options]).stdout
    inspected: dict[str, Any] = json.loads(raw)[0]
    assert inspected["container_name"] == "count"
    assert inspected["engine"] == "Podman"
    assert inspected["process_tree"]["command"] == "sh"
    assert inspected["statistics"]["pages_written"] > 0


def test_checkpoint_of_podman_itself_is_imported(hosts: Hosts) -> None:
    """With its files, volumes and log, and spotrun lets it go on."""
    a, b = hosts(2)
    _let_podman(a)
    options = ["-v", f"{JOBS}:/jobs:ro", "-v", "kept:/kept", "--cap-add=MKNOD"]
    options += ["--log-driver=k8s-file"]
    a.run(["podman", "run", "-d", "--name", "count", *options, name("busybox"), *_COUNT])
    _await_podman(a, "count", 5)
    script = "echo kept | tee /kept/x > /dev/shm/x; rm /data/3; mkdir /tmp/a; echo b > /tmp/a/b"
    a.run(["podman", "exec", "count", "sh", "-c", script])
    before = _files(a, "count")
    file = "/mnt/machine/count.tar.zst"
    # Podman looks for changed files of the image on the host, and leaves out what is not there
    a.run(["sh", "-c", "mkdir -p /data && touch /data/2"])
    a.run(["podman", "container", "checkpoint", "--export", file, "--file-locks", "count"])
    saved = len(_podman_lines(a, "count"))
    said = spotrun(b, "import", file, "--name", "taken")
    assert (said["job"], said["missing"]) == ("taken", [])
    (row,) = spotrun(b, "snapshots", "taken")
    assert row["snapshot"] == said["snapshot"]
    assert b.run(["podman", "ps", "-aq"]).stdout == ""
    spotrun(b, "restore", "taken")
    await_lines(b, "taken", saved + 5)
    _unbroken(lines(b, "taken"))
    assert _files(b, "taken") == before
    for path in ("/kept/x", "/dev/shm/x"):
        assert b.run(["podman", "exec", "taken", "cat", path]).stdout == "kept\n"
    spotrun(b, "checkpoint", "taken")
    saved = len(lines(b, "taken"))
    spotrun(b, "restore", "taken")
    await_lines(b, "taken", saved + 3)
    b.run(["podman", "exec", "taken", "touch", "/end"])
    assert await_end(b, "taken") == 7


def test_archive_that_cannot_go_on_is_refused(hosts: Hosts) -> None:
    """With the reason, and nothing is left of it."""
    (host,) = hosts(1)
    host.path("/root/none.tar").write_bytes(b"no archive")
    _let_podman(host)
    run = ["podman", "--runtime=crun", "run", "-d", "--name", "x", name("busybox"), "sleep", "99"]
    host.run(run)
    host.run(["podman", "container", "checkpoint", "--export", "/root/crun.tar", "x"])
    for file, reason in {"none": "it cannot be read", "crun": "saved through crun"}.items():
        error = refused(host, "import", f"/root/{file}.tar")
        assert error["code"] == "ArchiveUnfit"
        assert reason in error["message"]
        assert "\n" not in error["message"]
    assert spotrun(host, "snapshots") == []
    assert host.run(["ls", "/var/lib/spotrun/scratch"]).stdout == ""
