"""After any failure a file has its old content or its new one."""

import errno
import os
import stat
from pathlib import Path

import pytest

from spotrun.images import durable
from spotrun.images.errors import NoRoom


def test_file_is_replaced(tmp_path: Path) -> None:
    """Nothing else is left in the folder."""
    file = tmp_path / "file"
    file.write_bytes(b"the old and longer content")
    durable.write_atomic(file, b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"new"}


def test_file_is_for_its_owner_only_unless_asked_otherwise(tmp_path: Path) -> None:
    """What spotrun writes may hold secrets."""
    durable.write_atomic(tmp_path / "secret", b"")
    durable.write_atomic(tmp_path / "script", b"", mode=0o755)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    umask = os.umask(0)
    os.umask(umask)
    assert modes == {"secret": 0o600, "script": 0o755 & ~umask}


@pytest.mark.parametrize("call", ["fsync", "rename"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "bad disk"), KeyboardInterrupt()])
def test_failure_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    """A bad disk or Ctrl-C before the rename leaves no trace of the new content."""

    def fail(*_: object) -> None:
        raise error

    file = tmp_path / "file"
    file.write_bytes(b"old")
    monkeypatch.setattr(os if call == "fsync" else Path, call, fail)
    with pytest.raises(type(error)):
        durable.write_atomic(file, b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"old"}


def test_content_is_durable_before_the_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut at any instant leaves one of both contents whole."""
    file, order, fsync = tmp_path / "file", [], os.fsync

    def recorded(fd: int) -> None:
        order.append((stat.S_ISDIR(os.fstat(fd).st_mode), file.exists()))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", recorded)
    durable.write_atomic(file, b"new")
    assert order == [(False, False), (True, True)]


def test_json_document_is_readable_by_people(tmp_path: Path) -> None:
    """Indented, keys sorted, ending with a newline."""
    durable.write_json(tmp_path / "it.json", {"b": [1], "a": None})
    assert (tmp_path / "it.json").read_text() == '{\n "a": null,\n "b": [\n  1\n ]\n}\n'


def test_every_file_and_folder_of_a_tree_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names in a folder only after the files they name."""
    (tmp_path / "sub").mkdir()
    for path in (tmp_path / "a", tmp_path / "sub" / "b"):
        path.touch()
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(str(_opened(fd))))
    durable.sync_tree(tmp_path)
    names = [str(Path(path).relative_to(tmp_path)) for path in synced]
    assert sorted(names) == [".", "a", "sub", "sub/b"]
    assert names.index("a") < names.index(".")
    assert names.index("sub/b") < names.index("sub")


def _opened(fd: int) -> Path:
    return Path(f"/proc/self/fd/{fd}").readlink()


def test_full_disk_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's own words have none."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NoRoom, match=f"no room left in {tmp_path}"):
        durable.write_atomic(tmp_path / "file", b"new")
    assert not list(tmp_path.iterdir())


def test_file_is_overwritten_within_its_own_blocks(tmp_path: Path) -> None:
    """Where there is no room beside it; what does not fit leaves it as it was."""
    file = tmp_path / "file"
    file.write_bytes(b"the old and longer content")
    durable.overwrite(file, b"new")
    assert file.read_bytes() == b"new"
    with pytest.raises(NoRoom):
        durable.overwrite(file, b"n" * (1 << 20))
    assert file.read_bytes() == b"new"
