"""Changed files become an ordinary layer, and are the same changed files again."""

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest
import zstandard

from spotrun.images import trees
from spotrun.images.errors import CommandFailed
from spotrun.images.oci import layer
from spotrun.images.oci.layer import OPAQUE, Layer, NoLayer
from spotrun.images.oci.registry import digest_of, digest_of_file
from spotrun.images.process import SystemRunner

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make such files")
pytestmark = needs_root
_HOLE = 8 << 20
_RUNNER = SystemRunner()


def _upper(folder: Path) -> Path:
    """Make an upper directory with all that overlayfs puts there."""
    (folder / "etc").mkdir(parents=True, mode=0o750)
    (folder / "etc" / "changed").write_text("new")
    os.mknod(folder / "etc" / "deleted", 0o600 | stat.S_IFCHR, os.makedev(0, 0))
    (folder / "replaced").mkdir()
    os.setxattr(folder / "replaced", OPAQUE, b"y")
    (folder / "replaced" / "only").write_text("this")
    (folder / "replaced" / "empty").mkdir()
    (folder / "moved").mkdir()
    os.setxattr(folder / "moved", "trusted.overlay.redirect", b"/old")
    os.mknod(folder / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to("etc/changed")
    (folder / "hard").hardlink_to(folder / "etc" / "changed")
    (folder / "owned").touch(mode=0o4755)
    os.chown(folder / "owned", 1234, 5678)
    os.setxattr(folder / "owned", "user.note", b"\xff\x00kept")
    (folder / os.fsdecode(b"\xff\n" + b"n" * 200)).write_text("odd name")
    with (folder / "sparse").open("wb") as file:
        file.write(b"begin")
        file.truncate(_HOLE)
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, ns=(1, 1_700_000_000_123_456_789), follow_symlinks=False)
    return folder


def _looks(root: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted([root, *root.rglob("*")]):
        it = path.lstat()
        link = path.is_symlink()
        names = () if link else sorted(os.listxattr(path, follow_symlinks=False))
        attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in names}
        content = path.read_bytes() if stat.S_ISREG(it.st_mode) else b""
        size = 0 if stat.S_ISDIR(it.st_mode) else it.st_size
        links = 0 if stat.S_ISDIR(it.st_mode) else it.st_nlink
        what = (it.st_mode, it.st_uid, it.st_gid, it.st_mtime_ns, size, links, it.st_rdev)
        found[str(path.relative_to(root))] = (*what, attributes, content)
    return found


def _made(folder: Path, upper: Path) -> Layer:
    """Return the layer of an upper directory as a snapshot has it."""
    folder.mkdir()
    trees.pack(_RUNNER, upper, folder / "0.tar")
    return layer.make(_RUNNER, folder / "0.tar", folder)


def _unmade(folder: Path, packed: Path) -> Path:
    """Return the upper directory that a layer gives."""
    for made in (folder, folder / "scratch", folder / "upper"):
        made.mkdir()
    layer.unmake(_RUNNER, packed, folder / "1.tar", folder / "scratch")
    trees.unpack(_RUNNER, folder / "1.tar", folder / "upper")
    return folder / "upper"


def _members(made: Layer) -> dict[str, tarfile.TarInfo]:
    """Return what an independent reader finds in a layer."""
    raw = zstandard.decompress(made.path.read_bytes())
    assert digest_of(raw) == made.diff_id
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        return {member.name: member for member in archive}


def test_upper_directory_comes_back_as_it_was(tmp_path: Path) -> None:
    """Whiteouts, opaque folders, devices, links, holes, owners, times and attributes."""
    source = _upper(tmp_path / "source")
    made = _made(tmp_path / "there", source)
    target = _unmade(tmp_path / "back", made.path)
    assert _looks(target) == _looks(source)
    assert (target / "sparse").stat().st_blocks * 512 < _HOLE // 2
    assert (target / "etc" / "changed").samefile(target / "hard")


def test_layer_has_the_marks_of_ordinary_layers(tmp_path: Path) -> None:
    """And nothing by which overlayfs knows deleted and replaced ones."""
    made = _made(tmp_path / "there", _upper(tmp_path / "source"))
    members = _members(made)
    assert members["./etc/.wh.deleted"].isreg()
    assert members["./etc/.wh.deleted"].size == 0
    assert "./etc/deleted" not in members
    assert members["./replaced/.wh..wh..opq"].isreg()
    assert members["./replaced/only"].size == 4
    assert not any(OPAQUE in key for it in members.values() for key in it.pax_headers)
    assert members["./null"].ischr()
    assert (made.digest, made.size) == (digest_of_file(made.path), made.path.stat().st_size)


def test_same_files_give_the_same_layer(tmp_path: Path) -> None:
    """Whenever and wherever they are packed, so that a registry gets it once."""
    source = _upper(tmp_path / "source")
    first = _made(tmp_path / "first", source)
    for path in source.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.read_bytes()
    copy = _unmade(tmp_path / "back", first.path)
    second = _made(tmp_path / "second", copy)
    assert (first.digest, first.diff_id) == (second.digest, second.diff_id)


def test_file_that_would_mean_a_deleted_one_is_refused(tmp_path: Path) -> None:
    """Layers cannot have it."""
    source = tmp_path / "source"
    source.mkdir()
    (source / ".wh.me").touch()
    with pytest.raises(NoLayer, match=r"\.wh\.me would mean a deleted one"):
        _made(tmp_path / "there", source)


def _evil(path: Path, *members: tarfile.TarInfo) -> Path:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for member in members:
            archive.addfile(member)
    path.write_bytes(zstandard.compress(raw.getvalue()))
    return path


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh...", "d/.wh..wh..opq"])
def test_mark_that_marks_nothing_is_refused(tmp_path: Path, name: str) -> None:
    """A layer of somebody else's making may have anything."""
    member = tarfile.TarInfo(name)
    member.type = tarfile.DIRTYPE if name.endswith("opq") else tarfile.REGTYPE
    with pytest.raises(NoLayer, match="marks nothing"):
        _unmade(tmp_path / "back", _evil(tmp_path / "layer", member))


def test_marks_do_not_follow_links_out_of_the_layer(tmp_path: Path) -> None:
    """A link to a folder of this host is a link, whatever comes behind it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, str(outside)
    before = _looks(outside)
    target = _unmade(tmp_path / "back", _evil(tmp_path / "layer", link))
    assert (target / "link").is_symlink()
    assert _looks(outside) == before


@pytest.mark.parametrize("raw", [b"", b"no zstd", zstandard.compress(b"x" * 100)[:-3]])
def test_layer_that_is_cut_off_or_none_is_refused(tmp_path: Path, raw: bytes) -> None:
    """Its digest may be right nevertheless."""
    packed = tmp_path / "layer"
    packed.write_bytes(raw)
    with pytest.raises((NoLayer, CommandFailed)):
        _unmade(tmp_path / "back", packed)
