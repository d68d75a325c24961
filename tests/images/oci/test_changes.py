"""An upper directory is parted as engines export it, and is the same again over its image."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from spotrun.images.oci import changes
from spotrun.images.oci.layer import OPAQUE
from spotrun.images.process import SystemRunner

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make such files")


def _whiteout(path: Path) -> None:
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(0, 0))


@pytest.fixture
def lower(tmp_path: Path) -> Path:
    """Give the files of an image."""
    root = tmp_path / "lower"
    for name in ("etc/a", "etc/b", "etc/hosts", "old/x/1", "old/x/2", "old/y", "gone/1"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("image's")
    (root / "link").symlink_to("/etc")
    return root


@pytest.fixture
def upper(tmp_path: Path) -> Path:
    """Give what a container has changed."""
    root = tmp_path / "upper"
    (root / "etc").mkdir(parents=True)
    (root / "etc").chmod(0o750)
    (root / "etc" / "a").write_text("changed")
    _whiteout(root / "etc" / "b")
    (root / "etc" / "hosts").touch()
    _whiteout(root / "gone")
    (root / "old" / "x").mkdir(parents=True)
    os.setxattr(root / "old", OPAQUE, b"y")
    (root / "old" / "x" / "2").write_text("new")
    (root / "link").mkdir()
    os.setxattr(root / "link", OPAQUE, b"y")
    (root / "link" / "x").touch()
    (root / "-odd\nname").touch()
    return root


def test_changes_are_told_as_engines_tell_them(upper: Path, lower: Path) -> None:
    """A replaced folder loses what the image had in it, at any depth; mounts are left out."""
    found = changes.of(upper, lower)
    assert found.deleted == ["/etc/b", "/gone", "/old/y", "/old/x/1"]
    assert found.written == [
        "-odd\nname", "etc", "etc/a", "link", "link/x", "old", "old/x", "old/x/2",
    ]  # fmt: skip


def test_changes_over_the_image_are_what_the_container_saw(
    upper: Path, lower: Path, tmp_path: Path
) -> None:
    """In the order in which Podman does it: files first, then what is deleted."""
    found = changes.of(upper, lower)
    diff = tmp_path / "rootfs-diff.tar"
    changes.pack(SystemRunner(), upper, found.written, diff)
    root = tmp_path / "root"
    shutil.copytree(lower, root, symlinks=True)
    (root / "link").unlink()  # Podman's own tar replaces a link by a folder
    SystemRunner().run(["tar", "--extract", f"--file={diff}", f"--directory={root}"])
    for path in found.deleted:
        shutil.rmtree(root / path[1:]) if (root / path[1:]).is_dir() else (root / path[1:]).unlink()
    seen = {str(it.relative_to(root)) for it in root.rglob("*") if it.is_file()}
    assert seen == {"-odd\nname", "etc/a", "etc/hosts", "link/x", "old/x/2"}
    assert (root / "etc" / "a").read_text() == "changed"
    assert stat.S_IMODE((root / "etc").stat().st_mode) == 0o750
    assert OPAQUE not in os.listxattr(root / "old")
    assert not (tmp_path / "rootfs-diff.names").exists()


def test_container_without_changes_has_none(tmp_path: Path, lower: Path) -> None:
    """Its upper directory is empty."""
    (tmp_path / "empty").mkdir()
    assert changes.of(tmp_path / "empty", lower) == changes.Changes([], [])
