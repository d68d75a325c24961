"""A container's changed files as an ordinary layer of an image, and back.

In a snapshot they are the upper directory of an overlay (trees.py). In a layer a deleted file is
an empty one named `.wh.NAME`, and a directory that replaces another has a file `.wh..wh..opq`
(OCI image specification, layer.md). The same files always give the same layer.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zstandard

from spotrun.images import trees
from spotrun.images.oci.registry import digest_of_file
from spotrun.images.process import Runner, checked

MEDIA_TYPE: Final = "application/vnd.oci.image.layer.v1.tar+zstd"
OPAQUE: Final = "trusted.overlay.opaque"
_WHITEOUT: Final = ".wh."
_OPAQUE_MARK: Final = ".wh..wh..opq"
_SENSELESS: Final = (".wh.", ".wh..", ".wh...")
_LEVEL: Final = 3
_PIECE: Final = 1 << 20
_TAR: Final = (
    "tar",
    "--create",
    "--sort=name",
    # 0.0 is the one way to keep holes that puts no process id into names
    *("--format=posix", "--sparse", "--sparse-version=0.0", "--numeric-owner"),
    *("--acls", "--xattrs", "--xattrs-include=*"),
    # when a file was last read or moved is no part of what it is
    "--pax-option=delete=atime,delete=ctime,exthdr.name=%d/PaxHeaders/%f",
    "--warning=no-file-ignored",
)


class NoLayer(Exception):
    """The files cannot be a layer."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer in a file."""

    path: Path
    digest: str
    size: int
    diff_id: str
    """Digest of the layer before it was compressed."""


def is_whiteout(found: os.stat_result) -> bool:
    """Tell whether overlayfs takes it for a deleted file."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def is_opaque(folder: Path) -> bool:
    """Tell whether overlayfs shows nothing of what lies below that folder."""
    try:
        return os.getxattr(folder, OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False


def make(runner: Runner, archive: Path, scratch: Path) -> Layer:
    """Turn the archive of an upper directory into a layer, or raise NoLayer."""
    upper, plain, packed = scratch / "upper", scratch / "layer.tar", scratch / "layer.tar.zst"
    upper.mkdir()
    trees.unpack(runner, archive, upper)
    for folder in _folders(upper):
        _keeping_time(folder, _mark)
    argv = [*_TAR, f"--file={plain}", f"--directory={upper}", "."]
    checked(runner.run(argv), argv)
    diff_id = _compress(plain, packed)
    plain.unlink()
    digest = digest_of_file(packed)
    return Layer(packed, digest, packed.stat().st_size, diff_id)


def _compress(plain: Path, packed: Path) -> str:
    """Return the digest of what is compressed."""
    digest, size = hashlib.sha256(), plain.stat().st_size
    # with threads the result is the same for any number of them, but another than without
    compressor = zstandard.ZstdCompressor(level=_LEVEL, threads=os.cpu_count() or 1)
    with (
        plain.open("rb") as source,
        packed.open("wb") as sink,
        compressor.stream_writer(sink, size=size, closefd=False) as compressed,
    ):
        while piece := source.read(_PIECE):
            digest.update(piece)
            compressed.write(piece)
    return f"sha256:{digest.hexdigest()}"


def unmake(runner: Runner, packed: Path, archive: Path, scratch: Path) -> None:
    """Turn a layer into the archive of an upper directory, or raise NoLayer."""
    upper, plain = scratch / "upper", scratch / "layer.tar"
    upper.mkdir()
    with packed.open("rb") as source, plain.open("wb") as sink:
        try:
            zstandard.ZstdDecompressor().copy_stream(source, sink)
        except zstandard.ZstdError as error:
            raise NoLayer(f"its layer cannot be decompressed: {error}") from error
    trees.unpack(runner, plain, upper)
    plain.unlink()
    for folder in _folders(upper):
        _keeping_time(folder, _unmark)
    trees.pack(runner, upper, archive)


def _folders(root: Path) -> Iterator[Path]:
    """Yield all folders of a tree, the inner ones first."""
    for folder, _, _ in os.walk(root, topdown=False):
        yield Path(folder)


def _keeping_time(folder: Path, change: Callable[[Path], None]) -> None:
    before = folder.lstat()
    change(folder)
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))


def _mark(folder: Path) -> None:
    """Write what overlayfs has in a folder as a layer has it."""
    for entry in list(os.scandir(folder)):
        if entry.name.startswith(_WHITEOUT):
            raise NoLayer(f"its file {entry.name} would mean a deleted one")
        found = entry.stat(follow_symlinks=False)
        if is_whiteout(found):
            Path(entry.path).unlink()
            mark = folder / f"{_WHITEOUT}{entry.name}"
            mark.touch(mode=0o600)
            os.utime(mark, ns=(found.st_atime_ns, found.st_mtime_ns))
    if is_opaque(folder):
        os.removexattr(folder, OPAQUE)
        mark = folder / _OPAQUE_MARK
        mark.touch(mode=0o600)
        os.utime(mark, ns=(0, 0))


def _unmark(folder: Path) -> None:
    """Write what a layer has in a folder as overlayfs has it."""
    for entry in list(os.scandir(folder)):
        if not entry.name.startswith(_WHITEOUT):
            continue
        found, path = entry.stat(follow_symlinks=False), Path(entry.path)
        if not stat.S_ISREG(found.st_mode) or entry.name in _SENSELESS:
            raise NoLayer(f"its {entry.name} marks nothing")
        path.unlink()
        if entry.name == _OPAQUE_MARK:
            os.setxattr(folder, OPAQUE, b"y")
        else:
            gone = folder / entry.name.removeprefix(_WHITEOUT)
            os.mknod(gone, 0o600 | stat.S_IFCHR, os.makedev(0, 0))
            os.utime(gone, ns=(found.st_atime_ns, found.st_mtime_ns))
