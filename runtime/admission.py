"""May a job come to this host? Asked before a restore, and by a source before it freezes."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spotrun.images import imagebox
from spotrun.images.address import Address
from spotrun.images.errors import SpotrunError
from spotrun.images.manifest import HostFacts, Manifest
from spotrun.images.runspec import ImageRef
from spotrun.images.store import Store
from spotrun.runtime import doctor, facts, fitness, grammar, scratch
from spotrun.runtime.host import Host


@dataclass(frozen=True, slots=True)
class VolumeDemand:
    """A volume that comes along, and what told it from others at the source."""

    name: str
    identity: str | None


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job needs of the host it is to go on at."""

    name: str
    """Name of the container to be made."""
    image: ImageRef
    source: HostFacts
    memory: int
    """Bytes of process memory."""
    disk: int
    """Bytes that are still to be written on this host."""
    binds: tuple[str, ...]
    """Paths of the host that the container sees."""
    volumes: tuple[VolumeDemand, ...]
    store: Address | None = None
    """The job's, if it is not the source's own."""
    store_id: str = ""


def of_manifest(manifest: Manifest, name: str) -> Demand:
    """Return what a snapshot that lies on this host demands."""
    volumes = [VolumeDemand(t.volume, t.identity) for t in manifest.trees if t.volume]
    trees = sum(size for path, size in manifest.files.items() if path.startswith("trees/"))
    return Demand(
        name=name,
        image=manifest.image,
        source=manifest.host,
        memory=manifest.memory_bytes,
        disk=trees,
        binds=user_binds(manifest.run.options),
        volumes=tuple(volumes),
    )


def user_binds(options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the host paths that `--volume` and `--mount type=bind` options name."""
    found = []
    for option in grammar.options(options):
        if option.name == "--volume" and option.value and option.value.startswith("/"):
            source, separator, _ = option.value.partition(":")
            found += [source] if separator else []
        elif option.name == "--mount" and option.value:
            fields = dict(part.partition("=")[::2] for part in option.value.split(","))
            if fields.get("type") == "bind":
                found.append(fields.get("source") or fields.get("src") or "")
    return tuple(path for path in found if path)


def refusals(host: Host, demand: Demand, *, making_way: str | None = None) -> list[str]:
    """Return every reason why the job cannot go on here; none: it can.

    The container `making_way` is none. Raises HostUnfit when this host cannot restore anything.
    """
    version = cache(host.engine.version)
    doctor.require(doctor.examine(host.runner, version, thorough=False))
    reasons = fitness.judge(
        demand.source,
        facts.gather(host.runner, version()),
        memory_needed=demand.memory,
        memory_free=fitness.free_memory(),
        disk_needed=demand.disk,
        disk_free=fitness.free_disk(host.paths.state),
    )
    taken = host.engine.find(demand.name)
    if taken and taken.id != making_way:
        reasons.append(f"the name {demand.name!r} is taken by container {taken.id[:12]}")
    reasons += [f"{path} is not on this host" for path in demand.binds if not Path(path).exists()]
    if demand.store and demand.store.remote and not sees_store(host, demand):
        reasons.append(_why_not(host, demand.store))
    for volume in demand.volumes:
        here = host.engine.volume(volume.name)
        if here and here != volume.identity:
            remedy = f"`{host.engine.name} volume rm {volume.name}` if nothing needs it"
            reasons.append(
                f"another volume {volume.name!r} is here; it is left untouched: {remedy}"
            )
    return reasons


def has_image(host: Host, image: ImageRef) -> bool:
    """Tell whether the engine has exactly that image."""
    return host.engine.image(image.id) is not None


def get_image(host: Host, store: Store, image: ImageRef) -> str | None:
    """Bring the image into the engine; return why it cannot be had, or None."""
    if has_image(host, image):
        return None
    try:
        if image.digest:
            host.engine.pull(image.digest)
        else:
            _load(host, store, image)
    except SpotrunError as error:
        return f"image {image.name} is not here and cannot be had: {error}"
    if has_image(host, image):
        return None
    return f"image {image.name} ({image.id[:12]}) is not here, and neither is it in {store}"


def _load(host: Host, store: Store, image: ImageRef) -> None:
    folder = scratch.place(host.paths, f"image-{image.id}")
    try:
        if imagebox.get(store, image, folder):
            host.engine.load_image(image, folder)
    finally:
        scratch.remove(host.paths, folder.name)


def sees_store(host: Host, demand: Demand) -> bool:
    """Tell whether this host reaches the very store that the source uses."""
    try:
        return demand.store is not None and host.store(demand.store).id == demand.store_id
    except SpotrunError:
        return False


def _why_not(host: Host, store: Address) -> str:
    """Return why this host cannot use the source's store."""
    try:
        host.store(store)
    except SpotrunError as error:
        return str(error)
    return f"{store.url} is another store here than at the source"
