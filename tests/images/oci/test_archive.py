"""Checkpoint archives: what is written others read, and what is read does no harm."""

import gzip
import io
import stat
import tarfile
from pathlib import Path

import pytest
import zstandard

from spotrun.images.errors import ArchiveUnfit
from spotrun.images.oci import archive
from spotrun.images.oci.archive import Compression


def _tar(*members: tarfile.TarInfo | tuple[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for it in members:
            if isinstance(it, tarfile.TarInfo):
                tar.addfile(it)
                continue
            member = tarfile.TarInfo(it[0])
            member.size = len(it[1])
            tar.addfile(member, io.BytesIO(it[1]))
    return raw.getvalue()


def _link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def _unpacked(folder: Path, raw: bytes) -> tuple[set[str], dict[str, bytes]]:
    """Return the names in an archive, and the files that come of it."""
    (folder / "x.tar").write_bytes(raw)
    target = folder / "inner" / "target"
    target.mkdir(parents=True)
    names = archive.unpack(folder / "x.tar", target)
    files = [it for it in folder.rglob("*") if it.is_file() and it.name != "x.tar"]
    return names, {str(it.relative_to(target)): it.read_bytes() for it in files}


_WHOLE = _tar(
    ("config.dump", b"{}"),
    ("./spec.dump", b"spec"),
    ("checkpoint/pages-1.img", b"memory" * 10000),
    ("volumes/data.tar", b"volume"),
    ("network.status", b"null"),
)
_EXPECTED = {
    "config.dump": b"{}",
    "spec.dump": b"spec",
    "checkpoint/pages-1.img": b"memory" * 10000,
    "volumes/data.tar": b"volume",
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_archive_is_read_however_it_is_compressed(tmp_path: Path, pack: type[bytes]) -> None:
    """All three ways of Podman; of its files those that are of use."""
    names, files = _unpacked(tmp_path, pack(_WHOLE))
    assert files == _EXPECTED
    assert names == {*_EXPECTED, "network.status"}


@pytest.mark.parametrize(
    "member",
    [
        ("../config.dump", b"x"),
        ("/config.dump", b"x"),
        ("checkpoint/../../../x", b"x"),
        ("checkpoint/..", b"x"),
        ("volumes/a/b.tar", b"x"),
        ("volumes/...tar.sh", b"x"),
        ("unknown", b"x"),
        _link("checkpoint", "/etc"),
        _link("checkpoint/core-1.img", "/etc/shadow"),
        _link("checkpoint/core-1.img", "../config.dump", tarfile.LNKTYPE),
        _link("config.dump", "x", tarfile.FIFOTYPE),
    ],
    ids=lambda it: it.name if isinstance(it, tarfile.TarInfo) else it[0],
)
def test_nothing_but_known_files_is_written(
    tmp_path: Path, member: tarfile.TarInfo | tuple[str, bytes]
) -> None:
    """No link, no device, and nothing outside of the folder."""
    _, files = _unpacked(tmp_path, _tar(member, ("checkpoint/a.img", b"a")))
    assert files == {"checkpoint/a.img": b"a"}
    assert not [it for it in tmp_path.rglob("*") if it.is_symlink()]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no archive at all" * 100,
        _WHOLE[:20000],
        zstandard.compress(_WHOLE)[:-10],
        gzip.compress(_WHOLE)[:-10],
        b"\x28\xb5\x2f\xfdrubbish",
        b"\x1f\x8brubbish",
    ],
    ids=["empty", "rubbish", "cut off", "zstd cut off", "gzip cut off", "no zstd", "no gzip"],
)
def test_broken_archive_is_named(tmp_path: Path, raw: bytes) -> None:
    """One sentence."""
    with pytest.raises(ArchiveUnfit, match=r"^archive .*x\.tar cannot be imported: it cannot be"):
        _unpacked(tmp_path, raw)


@pytest.mark.parametrize("compression", Compression)
def test_archive_is_for_its_owner_and_in_the_order_of_engines(
    tmp_path: Path, compression: Compression
) -> None:
    """It has secrets; folders and what is behind links are in it."""
    folder = tmp_path / "made"
    (folder / "artifacts").mkdir(parents=True)
    (folder / "config.dump").write_bytes(b"{}")
    images = tmp_path / "memory"
    images.mkdir()
    (images / "pages-1.img").write_bytes(b"memory")
    (folder / "checkpoint").symlink_to(images)
    target = tmp_path / "x.tar"
    names = ["artifacts", "config.dump", "checkpoint"]
    size = archive.write(target, folder, names, compression)
    assert size == target.stat().st_size
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    raw = target.read_bytes()
    if compression is Compression.ZSTD:
        raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        found = {member.name: member for member in tar}
        content = tar.extractfile("checkpoint/pages-1.img")
        assert content
        assert content.read() == b"memory"
    assert list(found) == ["artifacts", "config.dump", "checkpoint", "checkpoint/pages-1.img"]
    assert {member.uid for member in found.values()} == {0}


def test_archive_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """And one that was there stays."""
    target = tmp_path / "x.tar"
    target.write_bytes(b"before")
    with pytest.raises(FileNotFoundError):
        archive.write(target, tmp_path, ["missing"], Compression.ZSTD)
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]
