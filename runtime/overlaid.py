"""What an archive's container had changed, written over its image."""

import shutil
import stat
import tarfile
from contextlib import suppress
from pathlib import Path, PurePosixPath

import msgspec

from spotrun.images import trees
from spotrun.images.oci import archive
from spotrun.images.process import Runner, checked
from spotrun.images.runspec import ImageRef
from spotrun.runtime import libpod
from spotrun.runtime.host import Host
from spotrun.runtime.testimony import Said


class Outside(Exception):
    """A path of an archive leads out of the container."""


def write(host: Host, said: Said, image: ImageRef, unpacked: Path, target: Path) -> None:
    """Write the archive's changes over its image, and take what overlayfs makes of it.

    What was deleted goes first: a folder in the place of another one is in both lists.
    """
    runner = host.runner
    with libpod.made(host, ["--network=none", image.id, "none"]) as container:
        with libpod.mounted(runner, container) as root:
            try:
                _apply(runner, said, unpacked, root)
            except Outside as error:
                raise said.unfit(error) from error
        trees.pack(runner, container.upper, target)


def _apply(runner: Runner, said: Said, unpacked: Path, root: Path) -> None:
    for path in _deleted(said, unpacked):
        _delete(root, path)
    changed = unpacked / archive.ROOTFS
    if changed.is_file():
        _refuse_links(said, root, changed)
        argv = [*trees.unpack_command(changed), f"--directory={root}"]
        checked(runner.run(argv), argv)


def _deleted(said: Said, unpacked: Path) -> list[str]:
    try:
        raw = (unpacked / archive.DELETED).read_bytes()
        return msgspec.json.decode(raw, type=list[str])
    except FileNotFoundError:
        return []
    except msgspec.MsgspecError as error:
        raise said.unfit(f"its {archive.DELETED} makes no sense: {error}") from error


def _delete(root: Path, path: str) -> None:
    """Delete what the container had deleted; nothing outside of its root."""
    place = within(root, path)
    if place == root:
        raise Outside("it deletes the root folder")
    with suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISDIR(place.lstat().st_mode):
            shutil.rmtree(place)
        else:
            place.unlink()


def _refuse_links(said: Said, root: Path, changed: Path) -> None:
    """Refuse files that a link of the image would lead out of its root; an engine has none."""
    try:
        with tarfile.open(changed, mode="r|") as tar:
            for member in tar:
                within(root, member.name)
                if member.islnk():
                    within(root, member.linkname)
    except (tarfile.TarError, EOFError) as error:
        raise said.unfit(f"its {archive.ROOTFS} cannot be read: {error}") from error


def within(root: Path, path: str) -> Path:
    """Return where a path of a container is, or raise Outside if a link lies on the way to it."""
    place = root
    for part in PurePosixPath("/", path).parts[1:]:
        if part == ".." or place.is_symlink():
            raise Outside(f"its file {path} lies behind a link")
        place /= part
    return place
