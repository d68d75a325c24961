"""What an artefact says of itself before anybody downloads it, in the words of each community.

- Podman's for images made by `podman container checkpoint --create-image`
- CRI-O's, by which it and containerd know a checkpoint
- `org.criu.checkpoint.*`, which checkpointctl defines for all engines
- OCI's own, which name the base image
"""

import re
from typing import Final

from spotrun.images.manifest import HostFacts, Manifest

JOB: Final = "io.spotrun.job"
SNAPSHOT: Final = "io.spotrun.snapshot"
_FORMAT: Final = "io.spotrun.format"
_PODMAN: Final = "io.podman.annotations.checkpoint."
_CRIO: Final = "io.kubernetes.cri-o.annotations.checkpoint."
_CRIU: Final = "org.criu.checkpoint."
_OCI: Final = "org.opencontainers.image."
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""What images call the machines that Linux calls otherwise."""
_NUMBER: Final = re.compile(r"\d+")


def of(manifest: Manifest) -> dict[str, str]:
    """Return the annotations of a snapshot's artefact, sorted."""
    found = {
        JOB: manifest.job,
        SNAPSHOT: manifest.snapshot,
        _FORMAT: str(manifest.format),
        f"{_OCI}created": manifest.created,
        **_base(manifest),
        **_prefixed(_PODMAN, {"name": manifest.job, **_image(manifest), **_host(manifest.host)}),
        **_prefixed(_CRIO, {"name": manifest.job, **_image(manifest)}),
        f"{_CRIO}criu.version": _numeric(manifest.host.criu),
        **_prefixed(_CRIU, _neutral(manifest)),
    }
    return dict(sorted(found.items()))


def architecture(host: HostFacts) -> str:
    """Return a host's machine as images call it."""
    return _ARCHITECTURES.get(host.arch, host.arch)


def _base(manifest: Manifest) -> dict[str, str]:
    """Name the base image; one that no registry has has no digest there."""
    found = {f"{_OCI}base.name": manifest.image.name}
    if manifest.image.digest:
        found[f"{_OCI}base.digest"] = manifest.image.digest.rpartition("@")[2]
    return found


def _image(manifest: Manifest) -> dict[str, str]:
    return {
        "rawImageName": manifest.image.name,
        "rootfsImageID": manifest.image.id,
        "rootfsImageName": manifest.image.name,
    }


def _host(host: HostFacts) -> dict[str, str]:
    engine, version = _parted(host.engine)
    runtime, runtime_version = _parted(host.oci_runtime)
    return {
        f"{engine}.version": version,
        "criu.version": _numeric(host.criu),
        "runtime.name": runtime,
        "runtime.version": runtime_version,
        "host.arch": architecture(host),
        "host.kernel": host.kernel,
        "cgroups.version": host.cgroup_layout,
    }


def _neutral(manifest: Manifest) -> dict[str, str]:
    host = manifest.host
    (engine, version), (runtime, runtime_version) = _parted(host.engine), _parted(host.oci_runtime)
    return {
        "engine.name": engine,
        "engine.version": version,
        "container.name": manifest.job,
        **_image(manifest),
        "runtime.name": runtime,
        "runtime.version": runtime_version,
        "criu.version": host.criu,
        "host.arch": architecture(host),
        "host.kernel": host.kernel,
        "cgroup.version": host.cgroup_layout,
    }


def _numeric(criu: str) -> str:
    """Return a version as CRIU's library counts it: 40201 for 4.2.1."""
    major, minor, sub = (*(int(it) for it in _NUMBER.findall(criu)[:3]), 0, 0, 0)[:3]
    return str(major * 10000 + minor * 100 + sub)


def _parted(versioned: str) -> tuple[str, str]:
    name, _, version = versioned.partition(" ")
    return name, version


def _prefixed(prefix: str, found: dict[str, str]) -> dict[str, str]:
    return {prefix + key: value for key, value in found.items()}
