"""What cannot be done is refused: one sentence, exit code 125, and the job goes on."""

from collections.abc import Callable

import pytest

from tests.conftest import Hosts
from tests.e2e.jobs import JOBS, await_lines, lines, migrate, refused, spotrun, start, status
from tests.lab.host import Engine, Host
from tests.lab.images import archive, name

pytestmark = pytest.mark.lab

COUNT = ("sh", "/jobs/count.sh", "100000", "0")


def unharmed(host: Host, job: str = "count") -> None:
    """Prove that the job runs in the same process as ever, and nothing is left of the attempt."""
    await_lines(host, job, len(lines(host, job)) + 2)
    assert "paused" not in host.run([*host.runc, "list"]).stdout
    assert host.run(["ls", "/var/lib/spotrun/journal"]).stdout == ""
    assert host.run(["ls", "/var/lib/spotrun/scratch", "/dev/shm/spotrun"]).stdout == (
        "/dev/shm/spotrun:\n\n/var/lib/spotrun/scratch:\n"
    )


def _break_criu(host: Host) -> None:
    """Make CRIU fail in mid-dump, after it has frozen and looked at everything."""
    script = '#!/bin/sh\nulimit -f 16\nexec /usr/sbin/criu.real "$@"\n'
    host.run(["mv", "/usr/sbin/criu", "/usr/sbin/criu.real"])
    host.path("/usr/sbin/criu").write_text(script)
    host.run(["chmod", "+x", "/usr/sbin/criu"])


def _fill_the_store(host: Host) -> None:
    host.fill("/var/lib/spotrun/store", 1)


@pytest.mark.parametrize("fault", [_break_criu, _fill_the_store], ids=["dump fails", "disk full"])
def test_failed_checkpoint_leaves_the_job_running(
    hosts: Hosts, engine: Engine, fault: Callable[[Host], None]
) -> None:
    """The error has the cause in one sentence, and nothing is half-made."""
    (host,) = hosts(1, engine=engine)
    start(host, "count", "busybox", *COUNT)
    await_lines(host, "count", 3)
    fault(host)
    error = refused(host, "checkpoint", "count")
    assert error["code"] in {"CaptureFailed", "NotCapturable"}
    assert "\n" not in error["message"]
    unharmed(host)
    assert spotrun(host, "snapshots") == []


@pytest.mark.parametrize(
    "use",
    [
        "exec 5< /busybox; rm /busybox",
        "exec /busybox sh -c 'rm /busybox; while :; do echo 1; sleep 1; done'",
    ],
    ids=["open", "mapped"],
)
def test_file_that_is_used_by_a_lost_name_and_has_others_is_refused(
    hosts: Hosts, engine: Engine, use: str
) -> None:
    """CRIU would link it for the time of the dump, and a restore not find it."""
    (host,) = hosts(1, engine=engine)
    script = f"cp /bin/busybox /busybox; ln /busybox /other; {use}"
    start(host, "job", "busybox", "sh", "-c", f"{script}; while :; do echo 1; sleep 1; done")
    await_lines(host, "job", 1)
    error = refused(host, "checkpoint", "job")
    assert error["code"] == "NotCapturable"
    assert "uses /busybox, which was removed and has other names still" in error["message"]
    unharmed(host, "job")


def test_name_taken_on_the_target_is_refused_before_the_freeze(
    hosts: Hosts, engine: Engine
) -> None:
    """A container of that name on the target, even a stranger's, stays as it is."""
    a, b = hosts(2, engine=engine)
    start(a, "count", "busybox", *COUNT)
    b.run([engine, "create", "--name", "count", name("busybox"), "sh"])
    error = refused(a, "migrate", "count", "--to", "ssh://root@host-b")
    assert error["code"] == "NotRestorable"
    assert "'count' is taken" in error["message"]
    unharmed(a)
    assert b.run([engine, "ps", "-a", "--format", "{{.Names}} {{.State}}"]).stdout == (
        "count created\n"
    )


def test_restore_that_fails_on_the_target_lets_the_source_go_on(
    hosts: Hosts, engine: Engine
) -> None:
    """The source goes on from the same instant, and the target keeps nothing."""
    a, b = hosts(2, engine=engine)
    start(a, "count", "busybox", *COUNT)
    await_lines(a, "count", 3)
    script = '#!/bin/sh\ncase "$*" in *restore*) exit 1;; esac\nexec runc.real "$@"'
    b.run(["mv", "/usr/sbin/runc", "/usr/sbin/runc.real"])
    b.path("/usr/sbin/runc").write_text(script)
    b.run(["chmod", "+x", "/usr/sbin/runc"])
    error = refused(a, "migrate", "count", "--to", "ssh://root@host-b")
    assert error["code"] == "RestoreFailed"
    unharmed(a)
    assert spotrun(a, "snapshots") == spotrun(b, "snapshots") == []
    assert b.run([engine, "ps", "-aq"]).stdout == ""


def test_unreachable_target_is_refused(hosts: Hosts) -> None:
    """A host that does not answer is named, with ssh's own words."""
    (a,) = hosts(1)
    start(a, "count", "busybox", *COUNT)
    error = refused(a, "migrate", "count", "--to", "ssh://root@10.99.0.99")
    assert error["code"] == "TargetUnreachable"
    assert "10.99.0.99" in error["message"]
    unharmed(a)


def test_restore_under_a_taken_name_is_refused(hosts: Hosts, engine: Engine) -> None:
    """The stored job stays restorable, also under another name."""
    (host,) = hosts(1, engine=engine)
    start(host, "count", "busybox", *COUNT)
    await_lines(host, "count", 3)
    spotrun(host, "checkpoint", "count", "--leave-running")
    error = refused(host, "restore", "count")
    assert error["code"] == "NameTaken"
    unharmed(host)
    spotrun(host, "restore", "count", "--name", "twin")
    await_lines(host, "twin", len(lines(host, "twin")) + 2)
    written = lines(host, "twin")
    assert written == [str(number) for number in range(len(written))]
    unharmed(host)


def test_job_of_one_engine_is_not_doubled_on_the_other(hosts: Hosts) -> None:
    """Neither by a restore nor by a run of its name."""
    (host,) = hosts(1)
    host.use_docker({name("busybox"): archive("busybox")})
    start(host, "count", "busybox", *COUNT, options=("--engine=podman",))
    await_lines(host, "count", 3)
    spotrun(host, "checkpoint", "count", "--leave-running")
    assert refused(host, "restore", "count", "--engine", "docker")["code"] == "NameTaken"
    again = ["run", "-d", "--engine=docker", "--name=count", name("busybox"), "sh"]
    assert host.run(["spotrun", *again], check=False).returncode == 125
    assert host.run(["docker", "ps", "-aq"]).stdout == ""
    unharmed(host)
    spotrun(host, "checkpoint", "count")
    spotrun(host, "restore", "count", "--engine", "docker")


def test_stored_job_is_not_lost_to_a_namesake(hosts: Hosts) -> None:
    """That comes from another host, or is restored under its name."""
    a, b = hosts(2)
    for host in (a, b):
        start(host, "count", "busybox", *COUNT)
        await_lines(host, "count", 3)
    start(b, "other", "busybox", *COUNT)
    stored = spotrun(b, "checkpoint", "count")["snapshot"]
    error = refused(a, "migrate", "count", "--to", "ssh://root@host-b")
    assert f"another job 'count' is stored there as {stored}" in error["message"]
    unharmed(a)
    await_lines(b, "other", 3)
    spotrun(b, "checkpoint", "other")
    error = refused(b, "restore", "other", "--name", "count")
    assert f"job 'count' is stored as {stored}" in error["message"]
    spotrun(b, "restore", "count")
    unharmed(b)


def test_other_image_under_the_same_name_on_the_target(hosts: Hosts, engine: Engine) -> None:
    """The job takes its own image along; the target's image of that name is left alone."""
    a, b = hosts(2, images=(), engine=engine)
    a.load_image(archive("busybox"), name("busybox"), engine=engine)
    script = f"echo '#' > /tmp/x && tar -cC /tmp x | {engine} import - localhost/lab/busybox:1"
    b.run(["sh", "-c", script])
    foreign = _image_id(b)
    start(a, "count", "busybox", *COUNT)
    await_lines(a, "count", 3)
    migrate(a, b, "count")
    await_lines(b, "count", len(lines(b, "count")) + 3)
    assert _image_id(b) == foreign


def _image_id(host: Host) -> str:
    return host.run([host.engine, "image", "inspect", "-f", "{{.Id}}", name("busybox")]).stdout


@pytest.mark.parametrize(
    ("source", "target"),
    [("podman", "podman"), ("docker", "docker"), ("docker", "podman"), ("podman", "docker")],
)
def test_image_that_no_registry_has_travels_with_the_job(
    hosts: Hosts, source: Engine, target: Engine
) -> None:
    """The target has no image at all, and the job goes on there."""
    (a,), (b,) = hosts(1, images=(), engine=source), hosts(1, images=(), engine=target)
    a.load_image(archive("busybox"), name("busybox"), engine=source)
    start(a, "count", "busybox", *COUNT)
    await_lines(a, "count", 3)
    migrate(a, b, "count")
    await_lines(b, "count", len(lines(b, "count")) + 3)
    assert status(a, "count") == "moved to ssh://root@host-b"


def test_image_travels_from_a_docker_that_keeps_it_in_containerd(hosts: Hosts) -> None:
    """And to another one, under a name that registries could have; containerd has the overlay."""
    a, b = hosts(2, images=())
    a.use_docker({"mine:1": archive("busybox")}, containerd=True)
    b.use_docker({}, containerd=True)
    job = ["-d", "--name", "count", "-v", f"{JOBS}:/jobs:ro", "mine:1", *COUNT]
    a.run(["spotrun", "run", *job])
    await_lines(a, "count", 3)
    a.run(["docker", "exec", "count", "sh", "-c", "echo kept > /x; rm -f /data/1"])
    migrate(a, b, "count")
    await_lines(b, "count", len(lines(b, "count")) + 3)
    look = ["docker", "exec", "count", "sh", "-c", "cat /x; ls /data"]
    assert b.run(look).stdout.split() == ["kept", "0", "2", "3"]


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("mv /usr/sbin/criu /usr/sbin/not-criu", "CRIU"),
        ("printf '#!/bin/sh\necho Version: 3.17.1\n' > /usr/sbin/criu", "3.17.1"),
        ("rm /usr/sbin/runc; rm -f /usr/lib/*/libcriu.so.2; ldconfig", "runc"),
    ],
    ids=["without CRIU", "CRIU 3.17", "only crun, without libcriu"],
)
def test_host_that_lacks_something_says_so_in_one_sentence(
    hosts: Hosts, damage: str, expected: str
) -> None:
    """Both verbs that need it refuse, and doctor names the fix."""
    (host,) = hosts(1)
    start(host, "count", "busybox", *COUNT)
    await_lines(host, "count", 2)
    host.run(["sh", "-c", damage])
    error = refused(host, "checkpoint", "count")
    assert error["code"] == "HostUnfit"
    assert expected in error["message"]
    plain = host.run(["spotrun", "checkpoint", "count"], check=False)
    assert plain.returncode == 125
    assert plain.stderr.startswith(f"spotrun: {error['message']}\n")
    doctor = host.run(["spotrun", "doctor"], check=False)
    assert doctor.returncode == 125
    assert expected in doctor.stdout
