"""`install` tells the engines of a host about spotrun, and `uninstall` leaves no trace of that."""

import json

import pytest

from tests.conftest import Hosts
from tests.e2e.jobs import refused, spotrun
from tests.lab.host import Host
from tests.lab.images import archive, name

pytestmark = pytest.mark.lab

_DAEMON = "/etc/docker/daemon.json"
_SETTINGS = '{"log-level": "warn",\n      "runtimes": {"other": {"path": "/usr/sbin/runc"}}\n}'
"""Of a host whose owner has a style of their own, and no newline at the end."""
_SHIM = "/var/lib/spotrun/spotrun-oci"


@pytest.fixture
def host(hosts: Hosts) -> Host:
    """Give a host with both engines, each configured by its owner."""
    (made,) = hosts(1)
    made.path(_DAEMON).write_text(_SETTINGS)
    made.path(_DAEMON).chmod(0o640)
    made.start_docker()
    return made


def _files(host: Host) -> str:
    """Return all that a host has beside spotrun's own state: folders, files, modes, content."""
    script = "find /etc /usr -printf '%p %m %U:%G\\n' | sort; find /etc /usr/local -type f"
    return host.run(["sh", "-c", f"{script} | sort | xargs sha256sum"]).stdout


def _runtimes(host: Host) -> dict[str, str]:
    """Return the OCI runtimes that Docker's daemon knows."""
    said = host.run(["docker", "info", "--format", "{{json .Runtimes}}"]).stdout
    return {runtime: it["path"] for runtime, it in json.loads(said).items()}


def test_install_and_uninstall_leave_every_byte_as_it_was(host: Host) -> None:
    """A dry run shows all that changes and changes nothing; a second install has nothing to do."""
    before = _files(host)
    shown = spotrun(host, "install", "--dry-run")
    assert _files(host) == before
    diffs = {change["path"]: change["diff"] for change in shown["changes"]}
    assert f'"spotrun": {{"path": "{_SHIM}"}}' in diffs[_DAEMON]
    assert "/etc/containers/containers.conf" not in diffs
    done = spotrun(host, "install")
    assert [it["path"] for it in done["changes"]] == list(diffs)
    assert _runtimes(host)["spotrun"] == _SHIM
    assert spotrun(host, "install")["changes"] == []
    spotrun(host, "uninstall", "--dry-run")
    assert _runtimes(host)["spotrun"] == _SHIM
    spotrun(host, "uninstall")
    assert _files(host) == before
    assert "spotrun" not in _runtimes(host)
    assert not host.path(_SHIM).exists()
    assert spotrun(host, "uninstall")["changes"] == []


def test_engines_run_containers_through_the_runtime(host: Host) -> None:
    """By its name, with the exit codes of runc; while there is such a container it stays."""
    host.load_image(archive("busybox"), name("busybox"), engine="docker")
    spotrun(host, "install")
    for engine in ("docker", "podman"):
        run = [engine, "run", "--rm", "--runtime=spotrun", name("busybox")]
        assert host.run([*run, "sh", "-c", "exit 3"], check=False).returncode == 3
        missing = host.run([*run, "no-such-command"], check=False)
        assert (missing.returncode, "executable file not found" in missing.stderr) == (127, True)
        host.run([engine, "create", f"--name=of-{engine}", *run[3:], "sh"])
    error = refused(host, "uninstall")
    assert error["message"].startswith("of-docker, of-podman: remove these containers first")
    for engine in ("docker", "podman"):
        host.run([engine, "rm", f"of-{engine}"])
    spotrun(host, "uninstall")


def test_what_others_change_meanwhile_stays(host: Host) -> None:
    """Only spotrun's own member leaves their file, and they are told so."""
    spotrun(host, "install")
    changed = host.path(_DAEMON).read_text().replace('"warn"', '"error"')
    host.path(_DAEMON).write_text(changed)
    notes = {it["path"]: it["note"] for it in spotrun(host, "uninstall")["changes"]}
    assert notes[_DAEMON] == "somebody has changed it: only runtimes.spotrun goes"
    assert host.path(_DAEMON).read_text() == _SETTINGS.replace('"warn"', '"error"')


def test_configuration_that_does_not_fit_is_left_alone(host: Host) -> None:
    """The error names it, and nothing at all has changed."""
    for settings, reason in {
        '{"log-level": "warn",}': "is not valid JSON",
        '{"runtimes": {"spotrun": {"path": "/usr/bin/mine"}}}': "has another one already",
        '{"no-such-setting": 1}': f"dockerd would not take {_DAEMON}",
    }.items():
        host.path(_DAEMON).write_text(settings)
        before = _files(host)
        assert reason in refused(host, "install")["message"]
        assert _files(host) == before
