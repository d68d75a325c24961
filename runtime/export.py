"""A snapshot becomes a checkpoint archive that Podman, CRI-O and checkpointctl read.

podman    `podman container restore --import`; zstd
cri       the smaller configuration that CRI-O and containerd go by; not compressed
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from spotrun.images import trees
from spotrun.images.address import Address
from spotrun.images.durable import write_json
from spotrun.images.errors import NotExportable, UsageError
from spotrun.images.manifest import Kind, Manifest, PhaseRecord, Tree
from spotrun.images.oci import archive, changes
from spotrun.images.oci.archive import Compression
from spotrun.images.oci.send import root_of
from spotrun.images.runspec import ImageRef
from spotrun.runtime import admission, libpod, lookup, options
from spotrun.runtime.engine import CRIU_ANNOTATION, RESTORE_ANNOTATION, Container
from spotrun.runtime.host import Host
from spotrun.runtime.steps import Steps, room
from spotrun.runtime.transaction import Observer

_SHM: Final = "/dev/shm"  # noqa: S108 # a path in the container
_OWN: Final = (RESTORE_ANNOTATION, CRIU_ANNOTATION)
_ENGINES_FILES: Final = frozenset(
    "/etc/hostname /etc/hosts /etc/resolv.conf /run/.containerenv /run/podman-init".split()
)
"""Mounts that engines make for every container, of files that are gone by now."""
_PODMAN: Final = "podman"
_RUNTIME: Final = "runc"
_NEVER: Final = "0001-01-01T00:00:00Z"
"""How Go writes that there is no time."""


class Form(StrEnum):
    """Whose archive is written."""

    PODMAN = "podman"
    CRI = "cri"


@dataclass(frozen=True, slots=True)
class Exported:
    """What came of an export."""

    job: str
    snapshot: str
    form: Form
    file: str
    bytes: int
    phases: list[PhaseRecord]


def export(
    host: Host, which: str, target: Path, *, form: Form, store: Address | None, observer: Observer
) -> Exported:
    """Write a snapshot, or a job's newest, as an archive."""
    if not target.parent.is_dir():
        raise UsageError(message=f"{target.parent} is no folder")
    source, manifest = lookup.snapshot(host, which, store)
    host = host.on(_PODMAN)  # which knows what a container of its own is like
    if manifest.kind is not Kind.LIVE:
        raise _refused(manifest, "it has no processes")
    if not manifest.host.engine.startswith(_PODMAN):
        reason = (
            f"it was saved under {manifest.host.engine}, whose mounts other engines do not know;"
            f" `spotrun restore --engine {_PODMAN} {manifest.job}` goes on with it"
        )
        raise _refused(manifest, reason)
    steps = Steps(host, observer)
    with room(host, f"export-{manifest.snapshot}", images=manifest.memory_bytes) as (files, made):
        with lookup.held(source, manifest.job):
            steps.do("fetch", lambda: source.fetch(manifest, files, tell=observer.progress), int)
            missing = steps.do(
                "get image", lambda: admission.get_image(host, source, manifest.image)
            )
        if missing:
            raise _refused(manifest, missing)
        made.mkdir(mode=0o700)
        steps.do("describe", lambda: _describe(host, manifest, files, made, form))
        compression = Compression.ZSTD if form is Form.PODMAN else Compression.NONE
        names = [name for name in _ORDER if (made / name).exists()]
        size = steps.do("write", lambda: archive.write(target, made, names, compression), int)
    return Exported(
        job=manifest.job,
        snapshot=manifest.snapshot,
        form=form,
        file=str(target),
        bytes=size,
        phases=steps.records,
    )


_ORDER: Final = (
    archive.ARTIFACTS, archive.SHM, archive.CONFIG, archive.SPEC, archive.BINDS, archive.NETWORK,
    archive.STATS, archive.DUMP_LOG, archive.LOG, archive.CRIO_LOG, archive.IMAGES,
    archive.ROOTFS, archive.DELETED, archive.VOLUMES,
)  # fmt: skip


def _describe(host: Host, manifest: Manifest, files: Path, made: Path, form: Form) -> None:
    """Make what an archive consists of below `made`, out of the snapshot's files."""
    spec = _spec(manifest)
    write_json(made / archive.SPEC, spec)
    (made / archive.IMAGES).symlink_to((files / "criu").resolve())
    _move(files / "work" / archive.STATS, made / archive.STATS)
    with _like(host, manifest) as container:
        _changed_files(host, manifest, files, made, container)
        if form is Form.PODMAN:
            _podman(host, manifest, files, made, container)
        else:
            _cri(manifest, files, made, container)


@contextmanager
def _like(host: Host, manifest: Manifest) -> Iterator[Container]:
    """Make a container like the one that was saved; the volumes that come with it go with it."""
    arguments = options.again(host.engine, manifest.run.options)
    arguments += [f"--env={variable}" for variable in manifest.oci_spec["process"]["env"]]
    volumes = [tree.volume for tree in manifest.trees if tree.volume]
    new = [name for name in volumes if host.engine.volume(name) is None]
    try:
        words = [*arguments, _image(host, manifest.image), *manifest.run.command]
        with libpod.made(host, words) as container:
            yield container
    finally:
        for name in new:
            host.engine.remove_volume(name)


def _image(host: Host, image: ImageRef) -> str:
    """Return the image's name, by which another host may find it, if it means the same here."""
    named = host.engine.image(image.name)
    return image.name if named is not None and named.id == image.id else image.id


def _spec(manifest: Manifest) -> dict[str, Any]:
    """Return the container's specification without what only spotrun makes of it."""
    spec = dict(manifest.oci_spec)
    notes = spec.get("annotations") or {}
    spec["annotations"] = {key: value for key, value in notes.items() if key not in _OWN}
    return spec


def _changed_files(
    host: Host, manifest: Manifest, files: Path, made: Path, container: Container
) -> None:
    """Part the upper directory into what engines write over an image and what they delete of it."""
    root = root_of(manifest)
    if root is None:
        return
    upper = files / "upper"
    upper.mkdir()
    trees.unpack(host.runner, files / root.archive, upper)
    with libpod.mounted(host.runner, container) as lower:
        found = changes.of(upper, lower)
    if found.written:
        changes.pack(host.runner, upper, found.written, made / archive.ROOTFS)
    if found.deleted:
        try:
            "".join(found.deleted).encode()
        except UnicodeEncodeError:
            raise _refused(manifest, "it deleted a file whose name is no text") from None
        write_json(made / archive.DELETED, found.deleted)


def _podman(host: Host, manifest: Manifest, files: Path, made: Path, container: Container) -> None:
    (made / archive.ARTIFACTS).mkdir()
    (made / archive.VOLUMES).mkdir()
    config = libpod.config(host.runner, container.id)
    mounts = [tree for tree in manifest.trees if tree.kind == "mount"]
    names = _volume_names(manifest.oci_spec["mounts"])
    for volume in config.get("namedVolumes") or []:
        volume["volumeName"] = names.get(volume["dest"], volume["volumeName"])
        content = made / archive.VOLUMES / f"{volume['volumeName']}.tar"
        _take(files, content, [tree for tree in mounts if tree.destination == volume["dest"]])
    _take(files, made / archive.SHM, [tree for tree in mounts if tree.destination == _SHM])
    if manifest.log:
        _move(files / manifest.log, made / archive.LOG)
    run = manifest.run
    config |= {
        "name": manifest.job,
        "runtime": _RUNTIME,
        "RawImageName": run.image,
        "CreateCommand": ["podman", "run", *run.options, run.image, *run.command],
    }
    write_json(made / archive.CONFIG, config)
    write_json(made / archive.NETWORK, {})


def _cri(manifest: Manifest, files: Path, made: Path, container: Container) -> None:
    _move(files / "work" / archive.DUMP_LOG, made / archive.DUMP_LOG)
    if manifest.log:
        _move(files / manifest.log, made / archive.CRIO_LOG)
    config = {
        "id": container.id,
        "name": manifest.job,
        "rootfsImage": manifest.image.name,
        "rootfsImageRef": manifest.image.digest or manifest.image.id,
        "rootfsImageName": manifest.image.name,
        "runtime": _RUNTIME,
        "createdTime": manifest.created,
        "checkpointedTime": manifest.created,
        "restoredTime": _NEVER,
        "restored": False,
    }
    write_json(made / archive.CONFIG, config)
    binds = [_bind(mount) for mount in manifest.oci_spec["mounts"] if _is_bind(mount)]
    write_json(made / archive.BINDS, binds)


def _is_bind(mount: dict[str, Any]) -> bool:
    return bool({"bind", "rbind"} & set(mount.get("options") or ()))


def _bind(mount: dict[str, Any]) -> dict[str, Any]:
    """Describe a bind mount; what the user named and this host lacks is taken for a folder."""
    source = Path(mount["source"])
    is_file = mount["destination"] in _ENGINES_FILES or source.is_file()
    return {
        "source": str(source),
        "destination": mount["destination"],
        "file_type": "file" if is_file else "directory",
        "permissions": 0o644 if is_file else 0o755,
    }


def _volume_names(mounts: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return by destination what the source's engine called its volumes: `…/NAME/_data`."""
    sources = {mount["destination"]: Path(mount.get("source") or "") for mount in mounts}
    return {where: it.parent.name for where, it in sources.items() if it.name == "_data"}


def _take(files: Path, target: Path, found: list[Tree]) -> None:
    for tree in found[:1]:
        _move(files / tree.archive, target)


def _move(source: Path, target: Path) -> None:
    if source.exists():
        source.rename(target)


def _refused(manifest: Manifest, reason: object) -> NotExportable:
    return NotExportable(snapshot=manifest.snapshot, verb="exported", reason=reason)
