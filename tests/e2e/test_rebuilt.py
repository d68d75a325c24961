"""A container of Docker's is made again with the options that its inspection tells."""

import json
from typing import Any, Final

import pytest

from spotrun.runtime import rebuilt
from tests.conftest import Hosts
from tests.lab.host import Host
from tests.lab.images import archive, name

pytestmark = pytest.mark.lab

_IMAGE: Final = name("busybox")
_BUILT: Final = """\
FROM localhost/lab/busybox:1
ENV Q=1
ENTRYPOINT ["/bin/sh", "-e"]
CMD ["-c", "true"]
USER 5
WORKDIR /w
LABEL a=b
EXPOSE 99
VOLUME /of-the-image
STOPSIGNAL USR1
HEALTHCHECK --interval=3s CMD true
"""
_OPTIONS: Final = {
    "process": [
        *"-it -e A=1 -u 1000:1000 -w /tmp --entrypoint /bin/sh --init --read-only".split(),
        *"--stop-signal INT --stop-timeout 3 --group-add 5 -e".split(), "B=x y",
    ],
    "limits": [
        *"-m 64m --memory-reservation 32m --memory-swap 80m --cpus 1.5 --cpu-shares 512".split(),
        *"--cpuset-cpus 0 --pids-limit 100 --shm-size 32m --ulimit nofile=10:20".split(),
        *"--oom-score-adj 5 --device-read-bps /dev/null:1mb --memory-swappiness 5".split(),
    ],
    "rights": [
        *"--cap-add NET_ADMIN --cap-drop CHOWN --security-opt no-new-privileges".split(),
        *"--device /dev/null:/dev/n:rw --sysctl net.ipv4.ip_forward=1".split(),
        *("--device-cgroup-rule", "c 1:3 rwm", "--gpus", '"device=0,1"'),
    ],
    "mounts": [
        *"-v /etc:/e:ro -v vol1:/v -v /anon --tmpfs /t:size=1m --volumes-from plain".split(),
        "--mount", 'type=bind,"source=/tmp/a,b",dst=/u,readonly,bind-propagation=rslave',
        "--mount", "type=volume,src=vol2,dst=/w,volume-nocopy",
        "--mount", "type=tmpfs,dst=/t2,tmpfs-size=1048576,tmpfs-mode=0700",
    ],
    "network": [
        *"-p 8080:80 -p 127.0.0.1:9000:90/udp -p 70 --expose 1234 --hostname hh".split(),
        *"--add-host foo:1.2.3.4 --dns 1.1.1.1 --dns-search ex --domainname dd".split(),
        "--network", "name=net1,alias=q,ip=172.30.0.5", "--network", "name=net2,alias=z",
    ],
    "life": [
        *"--restart on-failure:3 --health-interval 1500ms --health-retries 2 -l a=b".split(),
        *"--log-opt max-size=1m --annotation io.example=1 --health-cmd".split(), "true x",
    ],
    "the host's": "--network host --uts host --ipc host --pid host --privileged".split(),
    "another's": "--network container:plain --rm --ipc shareable --no-healthcheck".split(),
}  # fmt: skip
_OWN_EACH: Final = frozenset(
    "Id Created Name State GraphDriver HostnamePath LogPath HostsPath ResolvConfPath".split()
)
"""What two equal containers do not share."""


def _inspect(host: Host, kind: str, what: str) -> dict[str, Any]:
    (found,) = json.loads(host.run(["docker", kind, "inspect", what]).stdout)
    return dict(found)


def _common(container: dict[str, Any]) -> dict[str, Any]:
    """Return what the options decide."""
    kept = {key: value for key, value in container.items() if key not in _OWN_EACH}
    config = kept["Config"]
    if container["Id"].startswith(config["Hostname"]):
        config["Hostname"] = "made up"
    for terminal in ("AttachStdin", "AttachStdout", "AttachStderr", "StdinOnce"):
        del config[terminal]
    # Docker's client keeps these in a Go map, which has a new order each time
    config["Env"] = sorted(config["Env"] or ())
    for mount in kept["Mounts"]:
        if len(mount.get("Name", "")) == 64:
            mount["Name"] = mount["Source"] = "made up"
    kept["Mounts"].sort(key=lambda mount: mount["Destination"])
    kept["HostConfig"]["Binds"] = sorted(kept["HostConfig"]["Binds"] or ())
    return kept


def _made_again(host: Host, container: str) -> None:
    """Make a container by the options of another one, and compare them."""
    found = _inspect(host, "container", container)
    spec = rebuilt.run_spec(found, _inspect(host, "image", found["Image"]))
    host.run(["docker", "create", "--name=again", *spec.options, spec.image, *spec.command])
    again = _inspect(host, "container", "again")
    assert _common(again) == _common(found), spec
    host.run(["docker", "rm", "--volumes", "again"])


def test_container_is_made_again_as_it_was(hosts: Hosts) -> None:
    """With limits, mounts, networks, ports and all; also where the image says much itself."""
    (host,) = hosts(1, layout="v1")  # the other layout has no limits
    host.start_docker()
    host.load_image(archive("busybox"), _IMAGE, engine="docker")
    host.run(["mkdir", "/tmp/a,b"])
    for number, network in enumerate(("net1", "net2"), start=30):
        host.run(["docker", "network", "create", f"--subnet=172.{number}.0.0/16", network])
    host.run(["docker", "create", "--name=plain", _IMAGE, "sh"])
    _made_again(host, "plain")
    for case, options in _OPTIONS.items():
        made = host.run(["docker", "create", *options, _IMAGE, "sh", "-c", f"echo {case}"])
        _made_again(host, made.stdout.strip())
    host.run(["docker", "build", "--quiet", "--tag=much", "-"], stdin=_BUILT)
    for options in (
        ["much"],
        ["much", "-c", "x"],
        ["--entrypoint=/x", "much"],
        ["--entrypoint=", "much", "sh", "-c", "q"],
        [*"-u 6 -w /q -l a=c -e Q=2 --stop-signal=INT --no-healthcheck -v /more".split(), "much"],
    ):
        _made_again(host, host.run(["docker", "create", *options]).stdout.strip())
