"""A checkpoint archive of Podman becomes a snapshot, with which `restore` goes on.

What the archive does not tell is taken to be as on this host: CPU, kernel, and the versions of
CRIU and of the engine. So a restore elsewhere is refused where it would be from here.
"""

import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spotrun.images.address import Address
from spotrun.images.errors import EngineError, UsageError
from spotrun.images.manifest import Kind, Manifest, PhaseRecord, Tree, new_snapshot_id
from spotrun.images.oci import archive
from spotrun.images.recipe import Content
from spotrun.images.runspec import JOB_NAME, ImageRef
from spotrun.images.store import file_sizes
from spotrun.runtime import facts, locks, lookup, overlaid, testimony
from spotrun.runtime.host import Host
from spotrun.runtime.steps import Steps, room
from spotrun.runtime.testimony import Said
from spotrun.runtime.transaction import Observer

_SHM: Final = "/dev/shm"  # noqa: S108 # a path in the container
_MADE_UP: Final = re.compile(r"[0-9a-f]{64}")
"""How Podman names a volume that the user gave no name."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What came of an import."""

    job: str
    snapshot: str
    store: str
    bytes: int
    missing: list[str]
    """Volumes whose content the archive does not have."""
    phases: list[PhaseRecord]


def take(
    host: Host, source: Path, *, name: str | None, store: Address | None, observer: Observer
) -> Imported:
    """Put the snapshot that an archive holds into a store."""
    if not source.is_file():
        raise UsageError(message=f"{source} is no file")
    host, steps = host.on("podman"), Steps(host, observer)
    size = source.stat().st_size
    with room(host, "import", images=size) as (files, unpacked):
        unpacked.mkdir(mode=0o700)
        names = steps.do("unpack", lambda: archive.unpack(source, unpacked), lambda _: size)
        said = testimony.read(source, unpacked, names)
        job = name or said.config.name
        if not JOB_NAME.fullmatch(job):
            raise said.unfit(f"{job!r} cannot be a job's name; give another one with --name")
        image = steps.do("get image", lambda: _image(host, said))
        made = steps.do("apply changes", lambda: _files(host, said, image, unpacked, files))
        manifest = Manifest(
            snapshot=new_snapshot_id(host.clock.now()),
            job=job,
            created=host.clock.now().isoformat(timespec="milliseconds"),
            kind=Kind.LIVE,
            epoch=0,
            parent=None,
            image=image,
            run=said.run,
            host=facts.gather(host.runner, host.engine.version()),
            oci_spec=said.spec,
            trees=tuple(made),
            log="log" if (files / "log").exists() else None,
            files=file_sizes(files),
            content=Content((), ()),
        )
        place = _store(host, files, manifest, store, steps)
    there = {tree.destination for tree in made}
    volumes = [volume for volume in said.config.named_volumes or [] if volume.dest not in there]
    return Imported(
        job=job,
        snapshot=manifest.snapshot,
        store=place,
        bytes=manifest.bytes,
        missing=[volume.name for volume in volumes],
        phases=steps.records,
    )


def _store(
    host: Host, files: Path, manifest: Manifest, address: Address | None, steps: Steps
) -> str:
    target = host.store(lookup.store_of(host, manifest.job, address), make=True)
    with locks.hold(host.paths.locks, manifest.job, "import", host.clock.now(), wait=False):
        push = target.begin(f"import-{manifest.snapshot}", manifest.job, platform.node())
        tell = steps.observer.progress
        content = steps.do(
            "store",
            lambda: push.store(files, manifest.files, threads=None, tell=tell),
            lambda _: push.moved,
        )
        push.publish(replace(manifest, content=content))
        push.end()
    return str(target)


def _image(host: Host, said: Said) -> ImageRef:
    """Return the very image that the container was made from, pulled if need be."""
    config = said.config
    if found := host.engine.image(config.rootfs_image_id):
        return replace(found, name=said.run.image)
    try:
        host.engine.pull(config.rootfs_image_name)
    except EngineError as error:
        reason = f"its image {config.rootfs_image_name} is not here and cannot be had: {error}"
        raise said.unfit(reason) from error
    if found := host.engine.image(config.rootfs_image_id):
        return replace(found, name=said.run.image)
    reason = f"its registry has another image {config.rootfs_image_name} by now"
    raise said.unfit(f"{reason}; load {config.rootfs_image_id[:12]} first")


def _files(host: Host, said: Said, image: ImageRef, unpacked: Path, files: Path) -> list[Tree]:
    """Put the files where a snapshot has them; return its trees."""
    for path in (unpacked / archive.IMAGES).iterdir():
        shutil.move(path, files / "criu" / path.name)
    places = {
        archive.LOG: "log",
        archive.STATS: "work/stats-dump",
        archive.DUMP_LOG: "work/dump.log",
    }
    for name, place in places.items():
        with suppress(FileNotFoundError):
            (unpacked / name).rename(files / place)
    made = [Tree("rootfs", "trees/0.tar", "/")]
    overlaid.write(host, said, image, unpacked, files / made[0].archive)
    for path, tree in _mounts(said, unpacked, first=len(made)):
        path.rename(files / tree.archive)
        made.append(tree)
    return made


def _mounts(said: Said, unpacked: Path, *, first: int) -> Iterator[tuple[Path, Tree]]:
    """Yield the archives of mounts, and what they are the content of."""
    found: list[tuple[str, str, str | None]] = []
    binds = [it for it in said.spec.get("mounts") or [] if it.get("destination") == _SHM]
    if any("bind" in (it.get("options") or ()) for it in binds):
        found.append((archive.SHM, _SHM, None))
    for it in said.config.named_volumes or []:
        if "/" in it.name:
            raise said.unfit(f"its volume {it.name!r} has a name that no volume has")
        made_up = _MADE_UP.fullmatch(it.name)
        found.append((f"{archive.VOLUMES}/{it.name}.tar", it.dest, None if made_up else it.name))
    there = [(unpacked / name, where, volume) for name, where, volume in found]
    for number, (path, where, volume) in enumerate((it for it in there if it[0].is_file()), first):
        yield path, Tree("mount", f"trees/{number}.tar", where, volume)
