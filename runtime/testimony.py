"""What a checkpoint archive of Podman says of its container, and whether that can go on here."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from spotrun.images.errors import ArchiveUnfit, NotCapturable, UsageError
from spotrun.images.oci import archive
from spotrun.images.runspec import RunSpec
from spotrun.runtime import grammar, preflight

_OURS: Final = frozenset(("runc", "spotrun-oci"))
"""OCI runtimes whose process images runc restores."""
_STARTS: Final = frozenset(("run", "create"))


class Volume(msgspec.Struct, rename={"name": "volumeName"}):
    """A volume as Podman's configuration of a container names it."""

    name: str
    dest: str


class Config(msgspec.Struct, rename="camel"):
    """What of Podman's configuration of a container matters."""

    id: str
    name: str
    runtime: str = ""
    rootfs_image_id: str = msgspec.field(name="rootfsImageID", default="")
    rootfs_image_name: str = ""
    command_line: list[str] = msgspec.field(name="CreateCommand", default_factory=list)
    pod: str = ""
    dependencies: list[str] | None = msgspec.field(name="Dependencies", default=None)
    named_volumes: list[Volume] | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What an archive says."""

    path: Path
    config: Config
    spec: dict[str, Any]
    run: RunSpec

    def unfit(self, reason: object) -> ArchiveUnfit:
        """Return the error for an archive that cannot become a snapshot."""
        return ArchiveUnfit(archive=self.path, reason=reason)


def read(source: Path, unpacked: Path, names: set[str]) -> Said:
    """Read what the archive says of its container, and refuse what cannot go on here."""

    def unfit(reason: object) -> ArchiveUnfit:
        return ArchiveUnfit(archive=source, reason=reason)

    if reason := _lacks(unpacked, names):
        raise unfit(reason)
    try:
        config = msgspec.json.decode((unpacked / archive.CONFIG).read_bytes(), type=Config)
        spec = msgspec.json.decode((unpacked / archive.SPEC).read_bytes(), type=dict[str, Any])
        preflight.specification(config.name, spec)
        spec["process"]["env"], spec["mounts"]  # a restore reads them
    except msgspec.MsgspecError as error:
        raise unfit(f"its description makes no sense: {error}") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise unfit("its specification makes no sense") from error
    except NotCapturable as error:
        raise unfit(error.fields["reason"]) from error
    if reason := _unfit(config):
        raise unfit(reason)
    try:
        run = _command_line(config.command_line)
    except UsageError as error:
        raise unfit(f"its container's command line makes no sense: {error}") from error
    if run is None:
        raise unfit("it does not say by which command line its container was made")
    return Said(source, config, spec, run)


def _lacks(unpacked: Path, names: set[str]) -> str | None:
    """Return what an archive does not have that it must have, or None."""
    if archive.PARENT in names:
        return "its memory builds upon a pre-checkpoint; make one without --with-previous"
    if archive.PRE_CHECKPOINT in names and archive.IMAGES not in names:
        return "it is a pre-checkpoint, which has memory only"
    if not (unpacked / archive.IMAGES / "inventory.img").is_file():
        return "it has no process images"
    missing = [it for it in (archive.CONFIG, archive.SPEC) if not (unpacked / it).is_file()]
    return f"it has no {' and no '.join(missing)}" if missing else None


def _unfit(config: Config) -> str | None:
    if not config.rootfs_image_id:
        return "Podman has not made it, or its container had no image"
    if config.pod or config.dependencies:
        return "its container shares namespaces with others, in a pod or by --network=container:"
    runtime = Path(config.runtime).name
    if runtime not in _OURS:
        return f"its processes were saved through {runtime}, whose images runc cannot restore"
    return None


def _command_line(words: Sequence[str]) -> RunSpec | None:
    """Return what `podman run` or `podman create` was told; None: it was another command."""
    at = next((number for number, word in enumerate(words) if word in _STARTS), None)
    return None if at is None else grammar.split(words[at + 1 :])
