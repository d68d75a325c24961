"""What inspecting a container shows is read as the command line that makes it again."""

from typing import Any

import pytest

from spotrun.images.runspec import RunSpec
from spotrun.runtime import grammar, rebuilt

_ID = "25726937d6da" + "0" * 52
_BRIDGE = {"NetworkMode": "bridge", "ShmSize": 64 << 20, "IpcMode": "private", "Runtime": "runc"}


def _spec(
    host: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    networks: dict[str, Any] | None = None,
    image: dict[str, Any] | None = None,
) -> RunSpec:
    """Read a container that says these things beside what each does."""
    container = {
        "Id": _ID,
        "HostConfig": {**_BRIDGE, **(host or {})},
        "Config": {"Hostname": _ID[:12], "Image": "img:1", **(config or {})},
        "NetworkSettings": {"Networks": {"bridge": {}} if networks is None else networks},
    }
    return rebuilt.run_spec(container, {"Config": image})


def test_plain_container_has_no_options() -> None:
    """All that an engine fills in by itself is left out, whatever its word for nothing is."""
    assert _spec() == RunSpec(options=(), image="img:1", command=())
    podmans = {
        "NetworkMode": "bridge", "IpcMode": "private", "PidMode": "private", "UTSMode": "private",
        "UsernsMode": "", "Runtime": "oci", "RestartPolicy": {"Name": "", "MaximumRetryCount": 0},
        "MemorySwappiness": -1, "PidsLimit": 0, "LogConfig": {"Type": "k8s-file", "Config": None},
        "Annotations": {"io.container.manager": "libpod", "io.spotrun.job": "train"},
    }  # fmt: skip
    labels = {"io.spotrun.job": "train"}
    assert _spec(podmans, {"Labels": labels}, {"podman": {}}).options == ()


@pytest.mark.parametrize(
    ("host", "options"),
    [
        ({"NanoCpus": 1500000000}, ["--cpus=1.5"]),
        ({"Memory": 64, "MemorySwap": 128}, ["--memory=64"]),
        ({"Memory": 64, "MemorySwap": -1}, ["--memory=64", "--memory-swap=-1"]),
        ({"Ulimits": [{"Name": "RLIMIT_NOFILE", "Soft": 1, "Hard": 2}]}, ["--ulimit=nofile=1:2"]),
        ({"SecurityOpt": ["seccomp={}", "no-new-privileges"]},
         ["--security-opt=no-new-privileges"]),
        ({"Privileged": True, "SecurityOpt": ["label=disable"]}, ["--privileged"]),
        ({"SecurityOpt": ["label=disable"]}, ["--security-opt=label=disable"]),
        ({"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3}},
         ["--restart=on-failure:3"]),
        ({"RestartPolicy": {"Name": "always", "MaximumRetryCount": 0}}, ["--restart=always"]),
        ({"LogConfig": {"Type": "syslog", "Config": {"tag": "x"}}},
         ["--log-driver=syslog", "--log-opt=tag=x"]),
        ({"Runtime": "nvidia"}, ["--runtime=nvidia"]),
        ({"BlkioDeviceReadBps": [{"Path": "/dev/sda", "Rate": 5}]},
         ["--device-read-bps=/dev/sda:5"]),
        ({"Tmpfs": {"/a": "", "/b": "size=1m"}}, ["--tmpfs=/a", "--tmpfs=/b:size=1m"]),
        ({"Devices": [{"PathOnHost": "/a", "PathInContainer": "/b", "CgroupPermissions": ""}]},
         ["--device=/a:/b:rwm"]),
        ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]},
         ["--device=nvidia.com/gpu=0"]),
        ({"DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}]}, ["--gpus=all"]),
        ({"DeviceRequests": [
            {"Driver": "nvidia", "Count": 2, "Capabilities": [["gpu", "utility"]]}]},
         ["--gpus=count=2,driver=nvidia,capabilities=utility"]),
        ({"DeviceRequests": [{"DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]]}]},
         ['--gpus="device=0,1"']),
        ({"PortBindings": {"80/tcp": [{"HostIp": "::1", "HostPort": "8080"}], "70/udp": None}},
         ["--publish=[::1]:8080:80/tcp", "--publish=70/udp"]),
        ({"PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}},
         ["--publish=127.0.0.1::80/tcp"]),
        ({"Links": ["/db:/web/other"]}, ["--link=db:other"]),
        ({"CgroupnsMode": "host"}, ["--cgroupns=host"]),
    ],
)  # fmt: skip
def test_setting_of_the_host_becomes_its_option(host: dict[str, Any], options: list[str]) -> None:
    """In a word of its own, so that any value will do."""
    spec = _spec(host)
    assert list(spec.options) == options
    assert grammar.split([*spec.options, spec.image]) == spec


@pytest.mark.parametrize(
    ("mount", "text"),
    [
        ({"Type": "bind", "Source": "/a,b", "Target": "/c", "ReadOnly": True},
         'type=bind,"source=/a,b",target=/c,readonly'),
        ({"Type": "tmpfs", "Target": "/c", "TmpfsOptions": {"SizeBytes": 5, "Mode": 0o700}},
         "type=tmpfs,target=/c,tmpfs-size=5,tmpfs-mode=700"),
        ({"Type": "volume", "Source": "v", "Target": "/c", "VolumeOptions":
          {"NoCopy": True, "Labels": {"a": "b"},
           "DriverConfig": {"Name": "nfs", "Options": {"o": "addr=1,rw"}}}},
         ("type=volume,source=v,target=/c,volume-nocopy,volume-driver=nfs,volume-label=a=b,"
         '"volume-opt=o=addr=1,rw"')),
    ],
)  # fmt: skip
def test_mount_has_its_fields(mount: dict[str, Any], text: str) -> None:
    """Those with a comma in quotes."""
    assert _spec({"Mounts": [mount]}).options == (f"--mount={text}",)


def test_what_the_image_says_is_left_out() -> None:
    """And what the user said beside it is not."""
    image = {
        "Env": ["A=1", "B=2"], "Labels": {"a": "1"}, "User": "5", "WorkingDir": "/w",
        "ExposedPorts": {"80/tcp": {}}, "Volumes": {"/v": {}}, "StopSignal": "USR1",
        "Healthcheck": {"Test": ["CMD", "true"], "Interval": 3000000000},
    }  # fmt: skip
    assert _spec(config=image, image=image).options == ()
    changed = {
        **image,
        "Env": ["A=1", "B=3", "C=x y"],
        "Labels": {"a": "2"},
        "ExposedPorts": {"80/tcp": {}, "81/tcp": {}},
        "Volumes": {"/v": {}, "/w": {}},
        "StopSignal": "INT",
        "Healthcheck": {"Test": ["CMD", "a b", "c"], "Interval": 1500000000, "Retries": 2},
    }
    assert _spec(config=changed, image=image).options == (
        "--env=B=3",
        "--env=C=x y",
        "--stop-signal=INT",
        "--label=a=2",
        "--volume=/w",
        "--expose=81/tcp",
        "--health-cmd='a b' c",
        "--health-interval=1500ms",
        "--health-retries=2",
    )


@pytest.mark.parametrize(
    ("entry", "command", "expected"),
    [
        (["/e", "-x"], ["c"], ((), ())),
        (["/e", "-x"], ["d", "e"], ((), ("d", "e"))),
        (["/f", "-y"], ["c"], (("--entrypoint=/f",), ("-y", "c"))),
        (None, ["sh"], (("--entrypoint=",), ("sh",))),
        ([""], ["sh"], (("--entrypoint=",), ("sh",))),
        ("/e -x", ["c"], ((), ())),
    ],
    ids=["the image's", "other command", "other entry", "none", "an empty one", "a string"],
)
def test_command_is_what_follows_the_entry_point(
    entry: object, command: list[str], expected: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    """Its first word is the option's, as docker has it."""
    image = {"Entrypoint": ["/e", "-x"], "Cmd": ["c"]}
    spec = _spec(config={"Entrypoint": entry, "Cmd": command}, image=image)
    assert (spec.options, spec.command) == expected


def test_networks_keep_what_the_user_chose() -> None:
    """The first in docker's short options, the others in its long one; what was given out goes."""
    networks = {
        "front": {
            "IPAMConfig": {"IPv4Address": "172.30.0.5"},
            "Aliases": ["web", _ID[:12]],
            "IPAddress": "172.30.0.5",
        },
        "back": {"IPAMConfig": None, "Aliases": ["z"], "IPAddress": "172.31.0.2"},
    }
    spec = _spec({"NetworkMode": "front"}, {"Hostname": "hh", "MacAddress": "02:42"}, networks)
    assert spec.options == (
        "--hostname=hh",
        "--network=front",
        "--ip=172.30.0.5",
        "--network-alias=web",
        "--mac-address=02:42",
        "--network=name=back,alias=z",
    )


@pytest.mark.parametrize("mode", ["host", "container:abc", "none"])
def test_shared_network_has_no_name_of_its_own(mode: str) -> None:
    """The host name is the other's."""
    spec = _spec({"NetworkMode": mode}, {"Hostname": "machine"}, {})
    assert spec.options[-1] == f"--network={mode}"
    assert ("--hostname=machine" in spec.options) == (mode == "none")
