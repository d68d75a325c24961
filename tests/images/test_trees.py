"""A tree that goes through an archive is the same tree, by real GNU tar."""

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from spotrun.images import trees
from spotrun.images.errors import CommandFailed
from spotrun.images.process import Completed, SystemRunner

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make such files")
Carried = Callable[[], Path]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Give the folder to fill."""
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


@pytest.fixture
def carry(source: Path, tmp_path: Path) -> Carried:
    """Give a function that packs the source and returns where it was unpacked."""

    def carried() -> Path:
        target, archive = tmp_path / "target", tmp_path / "0.tar"
        target.mkdir()
        trees.pack(SystemRunner(), source, archive)
        trees.unpack(SystemRunner(), archive, target)
        return target

    return carried


def _looks(root: Path) -> dict[str, tuple[object, ...]]:
    """Return what `stat` says of everything in a tree, without what differs between disks."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted([root, *root.rglob("*")]):
        it = path.lstat()
        size = 0 if stat.S_ISDIR(it.st_mode) else it.st_size
        what = (it.st_mode, it.st_uid, it.st_gid, it.st_mtime_ns, size, it.st_nlink, it.st_rdev)
        found[str(path.relative_to(root))] = what
    return found


def test_files_modes_and_times_are_kept(source: Path, carry: Carried) -> None:
    """Down to the set-user-id bit, the nanosecond and the mode of the root itself."""
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "sub" / "empty").chmod(0o1777)
    for name, mode in {"plain": 0o640, "setuid": 0o4755, "none": 0o000, ".hidden": 0o600}.items():
        (source / name).write_text(name)
        (source / name).chmod(mode)
    os.utime(source / "plain", ns=(1, 1_700_000_000_123_456_789))
    source.chmod(0o751)
    target = carry()
    assert _looks(target) == _looks(source)
    assert (target / "plain").read_text() == "plain"


def test_names_of_any_bytes_are_kept(source: Path, carry: Carried) -> None:
    """Names with newlines, dashes, bytes that are no text, and more than 100 characters."""
    names = [b"-dash", b"new\nline", b"\xff\xfe", b"l" * 250, "ü".encode(), b"*"]
    for name in names:
        (source / os.fsdecode(name)).write_bytes(name)
    target = carry()
    assert {os.fsencode(path.name): path.read_bytes() for path in target.iterdir()} == {
        name: name for name in names
    }


@needs_root
def test_owners_are_kept_by_number(source: Path, carry: Carried) -> None:
    """This host's names of the same users do not matter."""
    (source / "file").touch()
    (source / "link").symlink_to("file")
    os.chown(source / "file", 12345, 54321)
    os.lchown(source / "link", 7, 8)
    target = carry()
    assert _looks(target) == _looks(source)
    assert (target / "file").stat().st_uid == 12345


def test_hard_links_are_kept(source: Path, carry: Carried) -> None:
    """Two names of one file are one file again."""
    (source / "a").write_text("shared")
    (source / "sub").mkdir()
    (source / "sub" / "b").hardlink_to(source / "a")
    target = carry()
    assert (target / "a").samefile(target / "sub" / "b")
    assert (target / "a").stat().st_nlink == 2


def test_symbolic_links_are_kept_as_they_are(source: Path, carry: Carried) -> None:
    """Also those that lead nowhere or out of the tree; none is followed."""
    links = {"absolute": "/etc/passwd", "out": "../../up", "nowhere": "missing", "loop": "loop"}
    for name, target in links.items():
        (source / name).symlink_to(target)
    unpacked = carry()
    assert {path.name: str(path.readlink()) for path in unpacked.iterdir()} == links


def test_named_pipe_is_kept(source: Path, carry: Carried) -> None:
    """It is made, not opened, which would hang."""
    os.mkfifo(source / "pipe", 0o620)
    assert (carry() / "pipe").is_fifo()


def test_holes_take_no_room(source: Path, carry: Carried, tmp_path: Path) -> None:
    """A sparse file stays sparse in the archive and behind it."""
    with (source / "sparse").open("wb") as file:
        file.seek(64 << 20)
        file.write(b"end")
    found = (carry() / "sparse").stat()
    assert found.st_size == (64 << 20) + 3
    assert found.st_blocks * 512 < 1 << 20
    assert (tmp_path / "0.tar").stat().st_size < 1 << 20


def test_extended_attributes_of_users_are_kept(source: Path, carry: Carried) -> None:
    """On files and directories, binary values too."""
    (source / "file").touch()
    try:
        os.setxattr(source / "file", "user.binary", b"\0\xff=\n")
    except OSError:
        pytest.skip("the file system of the test's folder has no extended attributes")
    os.setxattr(source, "user.root", b"x")
    target = carry()
    assert os.getxattr(target / "file", "user.binary") == b"\0\xff=\n"
    assert os.getxattr(target, "user.root") == b"x"


@needs_root
def test_overlay_changes_are_kept(source: Path, carry: Carried) -> None:
    """A deleted file is a device 0:0, a replaced directory is marked as opaque."""
    os.mknod(source / "deleted", 0o000 | stat.S_IFCHR, os.makedev(0, 0))
    (source / "replaced").mkdir()
    os.setxattr(source / "replaced", "trusted.overlay.opaque", b"y")
    target = carry()
    assert _looks(target) == _looks(source)
    assert (target / "deleted").is_char_device()
    assert os.getxattr(target / "replaced", "trusted.overlay.opaque") == b"y"


@needs_root
def test_device_nodes_are_kept(source: Path, carry: Carried) -> None:
    """A container may have made some of its own."""
    os.mknod(source / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(source / "disk", 0o660 | stat.S_IFBLK, os.makedev(7, 99))
    assert _looks(carry()) == _looks(source)


@needs_root
def test_capabilities_of_a_program_are_kept(source: Path, carry: Carried) -> None:
    """They are an attribute that a change of owner would take away."""
    capability = bytes.fromhex("0100000200200000000000000000000000000000")
    (source / "ping").touch()
    os.chown(source / "ping", 5, 5)
    os.setxattr(source / "ping", "security.capability", capability)
    assert os.getxattr(carry() / "ping", "security.capability") == capability


@needs_root
@pytest.mark.parametrize("name", ["origin", "impure", "nlink", "uuid", "upper", "protattr"])
def test_overlay_attributes_of_one_host_are_dropped(
    source: Path, carry: Carried, name: str
) -> None:
    """They name inodes of the source's disk, where another kernel would look for them."""
    for path in (source, source / "file"):
        path.touch()
        os.setxattr(path, f"trusted.overlay.{name}", b"0")
        os.setxattr(path, "trusted.overlay.redirect", b"/old")
    target = carry()
    for path in (target, target / "file"):
        assert os.listxattr(path) == ["trusted.overlay.redirect"]


def test_what_the_target_holds_besides_is_left(source: Path, tmp_path: Path) -> None:
    """A file of the same name is replaced, also one that is a symbolic link out of the tree."""
    (source / "same").write_text("new")
    trees.pack(SystemRunner(), source, tmp_path / "0.tar")
    target, outside = tmp_path / "target", tmp_path / "outside"
    target.mkdir()
    outside.write_text("untouched")
    (target / "same").symlink_to(outside)
    (target / "other").write_text("kept")
    trees.unpack(SystemRunner(), tmp_path / "0.tar", target)
    assert {path.name: path.read_text() for path in target.iterdir()} == {
        "same": "new",
        "other": "kept",
    }
    assert outside.read_text() == "untouched"


def test_missing_source_is_reported_with_tars_words(tmp_path: Path) -> None:
    """The sentence names the command, its status and the path."""
    with pytest.raises(CommandFailed, match=r"^tar --create .* ended with 2: .*") as failed:
        trees.pack(SystemRunner(), tmp_path / "missing", tmp_path / "0.tar")
    assert failed.value.fields["status"] == 2


def test_archive_that_was_cut_off_is_reported(source: Path, tmp_path: Path) -> None:
    """A truncated archive is not taken for a small one."""
    archive = tmp_path / "0.tar"
    (source / "file").write_bytes(os.urandom(100_000))
    trees.pack(SystemRunner(), source, archive)
    os.truncate(archive, 50_000)
    (tmp_path / "target").mkdir()
    with pytest.raises(CommandFailed, match="tar --extract"):
        trees.unpack(SystemRunner(), archive, tmp_path / "target")


class _Tar(SystemRunner):
    """A tar that ends with a status."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self._status = status

    def run(self, argv: Sequence[str], **_: Any) -> Completed:  # noqa: ANN401 # never used
        assert argv[0] == "tar"
        return Completed(self._status, "", "tar: ./x: it says")


@pytest.mark.parametrize(("changing", "status"), [(False, 1), (True, 2)])
def test_tree_that_cannot_be_read_whole_is_an_error(
    source: Path, tmp_path: Path, status: int, *, changing: bool
) -> None:
    """By default already when a file changes meanwhile, which tar ends with status 1 for."""
    runner = _Tar(status)
    with pytest.raises(CommandFailed, match="it says"):
        trees.pack(runner, source, tmp_path / "0.tar", changing=changing)


def test_volume_that_others_write_to_is_saved_as_it_was_found(source: Path, tmp_path: Path) -> None:
    """Another container may have it open, and goes on."""
    archive = tmp_path / "0.tar"
    archive.write_bytes(b"what tar has written")
    trees.pack(_Tar(1), source, archive, changing=True)
    assert archive.read_bytes() == b"what tar has written"
