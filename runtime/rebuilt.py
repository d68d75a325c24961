"""The `docker run` command line that makes a container again, read from what inspecting it shows.

The names are those of Docker's API 1.45, which Podman has as well, and of docker-run(1). What an
image says already is left out, and so is what the engine or spotrun itself adds.
"""

import csv
import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from spotrun.images.runspec import RunSpec

_Inspected = Mapping[str, Any]

_FLAGS: Final = {
    "AutoRemove": "--rm",
    "Init": "--init",
    "OomKillDisable": "--oom-kill-disable",
    "Privileged": "--privileged",
    "PublishAllPorts": "--publish-all",
    "ReadonlyRootfs": "--read-only",
}
_VALUES: Final = {
    "BlkioWeight": "--blkio-weight",
    "CgroupParent": "--cgroup-parent",
    "CpuPeriod": "--cpu-period",
    "CpuQuota": "--cpu-quota",
    "CpuRealtimePeriod": "--cpu-rt-period",
    "CpuRealtimeRuntime": "--cpu-rt-runtime",
    "CpuShares": "--cpu-shares",
    "CpusetCpus": "--cpuset-cpus",
    "CpusetMems": "--cpuset-mems",
    "Memory": "--memory",
    "MemoryReservation": "--memory-reservation",
    "OomScoreAdj": "--oom-score-adj",
    "PidMode": "--pid",
    "PidsLimit": "--pids-limit",
    "UTSMode": "--uts",
    "UsernsMode": "--userns",
    "VolumeDriver": "--volume-driver",
}
_LISTS: Final = {
    "Binds": "--volume",
    "CapAdd": "--cap-add",
    "CapDrop": "--cap-drop",
    "DeviceCgroupRules": "--device-cgroup-rule",
    "Dns": "--dns",
    "DnsOptions": "--dns-option",
    "DnsSearch": "--dns-search",
    "ExtraHosts": "--add-host",
    "GroupAdd": "--group-add",
    "VolumesFrom": "--volumes-from",
}
_RATES: Final = {
    "BlkioDeviceReadBps": ("--device-read-bps", "Rate"),
    "BlkioDeviceReadIOps": ("--device-read-iops", "Rate"),
    "BlkioDeviceWriteBps": ("--device-write-bps", "Rate"),
    "BlkioDeviceWriteIOps": ("--device-write-iops", "Rate"),
    "BlkioWeightDevice": ("--blkio-weight-device", "Weight"),
}
_MAPS: Final = {"StorageOpt": "--storage-opt", "Sysctls": "--sysctl"}
_HEALTH: Final = {
    "Interval": "--health-interval",
    "Timeout": "--health-timeout",
    "StartPeriod": "--health-start-period",
    "StartInterval": "--health-start-interval",
}
_OWN_RUNTIMES: Final = frozenset(("", "runc", "crun", "oci", "io.containerd.runc.v2", "spotrun"))
"""With the word that Podman has for its own, whatever it is."""
_FILE_LOGS: Final = frozenset(("", "json-file", "k8s-file"))
_SHM_SIZE: Final = 64 << 20
_NOT_THE_USERS: Final = ("io.spotrun.", "io.podman.", "io.container.manager", "org.criu.",
                         "org.opencontainers.", "org.systemd.")  # fmt: skip
"""How annotations and labels begin that engines and spotrun make."""


def run_spec(container: _Inspected, image: _Inspected) -> RunSpec:
    """Return the command line for a container, given what inspecting it and its image shows."""
    host, config = container["HostConfig"], container["Config"]
    ours = image.get("Config") or {}
    entry, command = _command(config, ours)
    words = [
        *_simple(host),
        *_process(config, ours),
        *entry,
        *_identity(container),
        *_labels("--label", config.get("Labels"), ours.get("Labels")),
        *_labels("--annotation", host.get("Annotations"), None),
        *_limits(host),
        *_mounts(container, ours),
        *_devices(host),
        *_network(container),
        *_ports(host, config, ours),
        *_health(config.get("Healthcheck"), ours.get("Healthcheck")),
        *_lifecycle(host),
    ]
    return RunSpec(options=tuple(words), image=config["Image"], command=tuple(command))


def _simple(host: _Inspected) -> Iterator[str]:
    """Yield what stands in the inspection as in the option."""
    for key, name in _FLAGS.items():
        if host.get(key):
            yield name
    for key, name in _VALUES.items():
        if host.get(key) and host[key] != "private":  # which is Podman's word for the default
            yield f"{name}={host[key]}"
    for key, name in _LISTS.items():
        yield from (f"{name}={value}" for value in host.get(key) or ())
    for key, name in _MAPS.items():
        yield from (f"{name}={it}={value}" for it, value in (host.get(key) or {}).items())
    for key, (name, of) in _RATES.items():
        yield from (f"{name}={it['Path']}:{it[of]}" for it in host.get(key) or ())


def _process(config: _Inspected, image: _Inspected) -> Iterator[str]:
    known = set(image.get("Env") or ())
    yield from (f"--env={it}" for it in config.get("Env") or () if it not in known)
    if config.get("User") and config["User"] != image.get("User"):
        yield f"--user={config['User']}"
    if config.get("WorkingDir") and config["WorkingDir"] != image.get("WorkingDir"):
        yield f"--workdir={config['WorkingDir']}"
    if config.get("OpenStdin"):
        yield "--interactive"
    if config.get("Tty"):
        yield "--tty"
    if config.get("StopSignal") and config["StopSignal"] != image.get("StopSignal"):
        yield f"--stop-signal={config['StopSignal']}"
    if config.get("StopTimeout") is not None:
        yield f"--stop-timeout={config['StopTimeout']}"


def _command(config: _Inspected, image: _Inspected) -> tuple[list[str], list[str]]:
    """Return the option for the entry point, and the words behind the image."""
    entry, command = _words(config.get("Entrypoint")), _words(config.get("Cmd"))
    default = _words(image.get("Entrypoint"))
    if entry != default:
        return [f"--entrypoint={entry[0] if entry else ''}"], [*entry[1:], *command]
    return [], [] if command == _words(image.get("Cmd")) else command


def _words(found: object) -> list[str]:
    """Read a command, which older Podman gives as one string; one empty word means none."""
    words = found.split() if isinstance(found, str) else found
    return list(words) if isinstance(words, Sequence) and list(words) != [""] else []


def _identity(container: _Inspected) -> Iterator[str]:
    config, host = container["Config"], container["HostConfig"]
    name, network = config.get("Hostname"), host.get("NetworkMode") or ""
    shared = "host" in {host.get("UTSMode"), network} or network.startswith("container:")
    if name and not shared and not container["Id"].startswith(name):
        yield f"--hostname={name}"
    if config.get("Domainname"):
        yield f"--domainname={config['Domainname']}"


def _labels(name: str, found: _Inspected | None, image: _Inspected | None) -> Iterator[str]:
    for key, value in (found or {}).items():
        if not key.startswith(_NOT_THE_USERS) and (image or {}).get(key) != value:
            yield f"{name}={key}={value}"


def _limits(host: _Inspected) -> Iterator[str]:
    if host.get("NanoCpus"):
        yield f"--cpus={host['NanoCpus'] / 1e9:g}"
    if host.get("MemorySwap") and host["MemorySwap"] != 2 * host.get("Memory", 0):
        yield f"--memory-swap={host['MemorySwap']}"  # by default twice the memory
    if host.get("MemorySwappiness") not in {None, -1}:
        yield f"--memory-swappiness={host['MemorySwappiness']}"
    if host.get("ShmSize") not in {None, 0, _SHM_SIZE}:
        yield f"--shm-size={host['ShmSize']}"
    for it in host.get("Ulimits") or ():
        name = it["Name"].removeprefix("RLIMIT_").lower()
        yield f"--ulimit={name}={it['Soft']}:{it['Hard']}"
    implied = host.get("Privileged") or "host" in {host.get("PidMode"), host.get("IpcMode")}
    for it in host.get("SecurityOpt") or ():
        # a profile is shown as its text, for which there is no option; CRIU keeps its filters
        if not it.startswith("seccomp={") and not (implied and it == "label=disable"):
            yield f"--security-opt={it}"
    if host.get("IpcMode") not in {None, "", "private"}:
        yield f"--ipc={host['IpcMode']}"
    if host.get("CgroupnsMode") == "host":
        yield "--cgroupns=host"


def _mounts(container: _Inspected, image: _Inspected) -> Iterator[str]:
    host, config = container["HostConfig"], container["Config"]
    for place, options in (host.get("Tmpfs") or {}).items():
        yield f"--tmpfs={place}:{options}" if options else f"--tmpfs={place}"
    yield from (f"--mount={_mount(it)}" for it in host.get("Mounts") or ())
    for place in config.get("Volumes") or {}:
        if place not in (image.get("Volumes") or {}):
            yield f"--volume={place}"


def _mount(mount: _Inspected) -> str:
    """Write the fields of `--mount`, of which each may have a comma in it."""
    bind, volume, tmpfs = (mount.get(f"{it}Options") or {} for it in ("Bind", "Volume", "Tmpfs"))
    driver = volume.get("DriverConfig") or {}
    fields: dict[str, object] = {
        "type": mount["Type"],
        "source": mount.get("Source"),
        "target": mount["Target"],
        "readonly": mount.get("ReadOnly"),
        "bind-propagation": bind.get("Propagation"),
        "volume-nocopy": volume.get("NoCopy"),
        "volume-subpath": volume.get("Subpath"),
        "volume-driver": driver.get("Name"),
        "tmpfs-size": tmpfs.get("SizeBytes"),
        "tmpfs-mode": f"{tmpfs['Mode']:o}" if tmpfs.get("Mode") else None,
    }
    words = [
        name if value is True else f"{name}={value}" for name, value in fields.items() if value
    ]
    words += [f"volume-label={key}={it}" for key, it in (volume.get("Labels") or {}).items()]
    words += [f"volume-opt={key}={it}" for key, it in (driver.get("Options") or {}).items()]
    return _csv(words)


def _devices(host: _Inspected) -> Iterator[str]:
    for it in host.get("Devices") or ():
        rights = it.get("CgroupPermissions") or "rwm"
        yield f"--device={it['PathOnHost']}:{it['PathInContainer']}:{rights}"
    for it in host.get("DeviceRequests") or ():
        if it.get("Driver") == "cdi":
            yield from (f"--device={name}" for name in it.get("DeviceIDs") or ())
        else:
            yield f"--gpus={_gpus(it)}"


def _gpus(request: _Inspected) -> str:
    names, kinds = request.get("DeviceIDs") or (), {"gpu"}
    more = [it for group in request.get("Capabilities") or () for it in group if it not in kinds]
    count = "all" if request.get("Count") == -1 else request.get("Count")
    fields = [f"device={','.join(names)}" if names else f"count={count}"]
    fields += [f"driver={request['Driver']}"] if request.get("Driver") else []
    fields += [f"capabilities={','.join(more)}"] if more else []
    return str(count) if fields == [f"count={count}"] else _csv(fields)


def _network(container: _Inspected) -> Iterator[str]:
    """Yield the first network with its details, then further ones in Docker's long form."""
    mode = container["HostConfig"].get("NetworkMode") or "default"
    found = dict((container.get("NetworkSettings") or {}).get("Networks") or {})
    first = found.pop(mode if mode in found else next(iter(found), mode), None) or {}
    if mode not in {"default", "bridge"} or found:
        yield f"--network={mode}"
    for name, value in _endpoint(first, container):
        yield f"--{'network-alias' if name == 'alias' else name}={value}"
    if container["Config"].get("MacAddress"):
        yield f"--mac-address={container['Config']['MacAddress']}"
    for network, endpoint in found.items():
        fields = [f"{name}={value}" for name, value in _endpoint(endpoint, container)]
        yield f"--network={_csv([f'name={network}', *fields])}"
    for link in container["HostConfig"].get("Links") or ():
        other, _, alias = link.partition(":")
        yield f"--link={other.removeprefix('/')}:{alias.rpartition('/')[2]}"


def _endpoint(endpoint: _Inspected, container: _Inspected) -> Iterator[tuple[str, str]]:
    """Yield what the user chose of a container's place in a network."""
    chosen = endpoint.get("IPAMConfig") or {}
    for key, name in (("IPv4Address", "ip"), ("IPv6Address", "ip6")):
        if chosen.get(key):
            yield name, chosen[key]
    for alias in endpoint.get("Aliases") or ():
        if not container["Id"].startswith(alias):
            yield "alias", alias


def _ports(host: _Inspected, config: _Inspected, image: _Inspected) -> Iterator[str]:
    bindings: Mapping[str, list[dict[str, str]] | None] = host.get("PortBindings") or {}
    for port, places in bindings.items():
        for place in places or [{}]:
            address, number = place.get("HostIp") or "", place.get("HostPort") or ""
            address = f"[{address}]" if ":" in address else address
            where = f"{address}:{number}:" if address else f"{number}:" if number else ""
            yield f"--publish={where}{port}"
    for port in config.get("ExposedPorts") or {}:
        if port not in bindings and port not in (image.get("ExposedPorts") or {}):
            yield f"--expose={port}"


def _health(check: _Inspected | None, image: _Inspected | None) -> Iterator[str]:
    if not check or check == image:
        return
    kind, *words = check.get("Test") or [""]
    if kind == "NONE":
        yield "--no-healthcheck"
        return
    if words and check["Test"] != (image or {}).get("Test"):
        yield f"--health-cmd={words[0] if kind == 'CMD-SHELL' else shlex.join(words)}"
    for key, name in _HEALTH.items():
        if check.get(key):
            yield f"{name}={_duration(check[key])}"
    if check.get("Retries"):
        yield f"--health-retries={check['Retries']}"


def _lifecycle(host: _Inspected) -> Iterator[str]:
    policy = host.get("RestartPolicy") or {}
    if policy.get("Name") not in {None, "", "no"}:
        count = policy.get("MaximumRetryCount")
        yield f"--restart={policy['Name']}{f':{count}' if count else ''}"
    log = host.get("LogConfig") or {}
    if log.get("Type", "") not in _FILE_LOGS:
        yield f"--log-driver={log['Type']}"
    yield from (f"--log-opt={key}={it}" for key, it in (log.get("Config") or {}).items())
    if host.get("Runtime", "") not in _OWN_RUNTIMES:
        yield f"--runtime={host['Runtime']}"


def _duration(nanoseconds: int) -> str:
    """Write it as Go reads it."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if nanoseconds % size == 0:
            return f"{nanoseconds // size}{unit}"
    return f"{nanoseconds}ns"


def _csv(fields: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()
