"""Checkpoint archives as engines write them: the names in them, and how they are read and written.

Names and meanings are those of `lib/metadata.go` of checkpointctl, which Podman, CRI-O and
containerd share.
"""

import gzip
import os
import re
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import IO, Final, cast

import zstandard

from spotrun.images.errors import ArchiveUnfit

CONFIG: Final = "config.dump"
"""The container's configuration, as its engine keeps it."""
SPEC: Final = "spec.dump"
"""The container's `config.json`, as the OCI runtime was given it."""
IMAGES: Final = "checkpoint"
"""Folder of CRIU's images."""
NETWORK: Final = "network.status"
STATS: Final = "stats-dump"
DUMP_LOG: Final = "dump.log"
LOG: Final = "ctr.log"
CRIO_LOG: Final = "io.kubernetes.cri-o.LogPath"
SHM: Final = "devshm-checkpoint.tar"
ROOTFS: Final = "rootfs-diff.tar"
"""Added and changed files of the container."""
DELETED: Final = "deleted.files"
"""List of the paths that are there no more."""
VOLUMES: Final = "volumes"
"""Folder of the archives of volumes, `NAME.tar`."""
BINDS: Final = "bind.mounts"
ARTIFACTS: Final = "artifacts"
PARENT: Final = f"{IMAGES}/parent"
PRE_CHECKPOINT: Final = "pre-checkpoint"
_READ: Final = re.compile(
    rf"(?:{CONFIG}|{SPEC}|{STATS}|{DUMP_LOG}|{LOG}|{SHM}|{ROOTFS}|{DELETED}"
    rf"|{IMAGES}/[^/]+|{VOLUMES}/[^/]+\.tar)"
)
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_GZIP: Final = b"\x1f\x8b"
_LEVEL: Final = 1
_BROKEN: Final = (tarfile.TarError, zstandard.ZstdError, gzip.BadGzipFile, EOFError)


class Compression(StrEnum):
    """How a whole archive is compressed."""

    NONE = "none"
    ZSTD = "zstd"


def unpack(archive: Path, folder: Path) -> set[str]:
    """Write those files of an archive that are of use below `folder`; return all names in it.

    Nothing but files is written, and none outside of the folder, whatever the archive says.
    """
    names = set()
    try:
        with _opened(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                name = str(PurePosixPath(member.name))
                names.add(name)
                content = tar.extractfile(member) if member.isreg() else None
                if content and _READ.fullmatch(name) and ".." not in PurePosixPath(name).parts:
                    place = folder / name
                    place.parent.mkdir(exist_ok=True)
                    with place.open("wb") as file:
                        shutil.copyfileobj(content, file)
    except _BROKEN as error:
        raise ArchiveUnfit(archive=archive, reason=f"it cannot be read: {error}") from error
    except OSError as error:
        raise ArchiveUnfit(archive=archive, reason=error.strerror or error) from error
    return names


def write(target: Path, folder: Path, names: Iterable[str], compression: Compression) -> int:
    """Write files and folders of `folder` as an archive for its owner only; return its size.

    It is there whole or not at all.
    """
    beside = target.with_name(f".{target.name}.{os.getpid()}.new")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            with ExitStack() as ending:
                sink: IO[bytes] = file
                if compression is Compression.ZSTD:
                    compressor = zstandard.ZstdCompressor(level=_LEVEL, threads=-1)
                    packed = compressor.stream_writer(file, closefd=False)
                    sink = cast("IO[bytes]", ending.enter_context(packed))
                # process images may be elsewhere, behind a link
                with tarfile.open(
                    fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT, dereference=True
                ) as tar:
                    for name in names:
                        tar.add(folder / name, arcname=name, filter=_of_root)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return target.stat().st_size


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o700 if member.isdir() else 0o600
    return member


@contextmanager
def _opened(archive: Path) -> Iterator[IO[bytes]]:
    """Open an archive, whatever it is compressed with."""
    with archive.open("rb") as file:
        head = file.read(len(_ZSTD))
        file.seek(0)
        if head == _ZSTD:
            decompressor = zstandard.ZstdDecompressor()
            with decompressor.stream_reader(file, read_across_frames=True, closefd=False) as it:
                yield cast("IO[bytes]", it)
        elif head.startswith(_GZIP):
            with gzip.open(file, "rb") as unpacked:
                yield cast("IO[bytes]", unpacked)
        else:
            yield file
