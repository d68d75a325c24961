"""Archives that cannot become a snapshot are refused with the reason, and leave nothing."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spotrun.images.errors import ArchiveUnfit, UsageError
from spotrun.runtime import importing, overlaid
from tests.fakes.host import FakeHost, fake_host
from tests.fakes.observer import Listener

_NAMESPACES = ("pid", "network", "ipc", "uts", "mount")
_SPEC = {
    "process": {"env": ["A=1"], "args": ["sh"]},
    "linux": {"namespaces": [{"type": name} for name in _NAMESPACES]},
    "mounts": [],
}
_CONFIG = {
    "id": "1" * 64,
    "name": "train",
    "runtime": "runc",
    "rootfsImageID": "2" * 64,
    "rootfsImageName": "localhost/busybox:1",
    "CreateCommand": ["podman", "run", "-d", "--name", "train", "busybox", "sh"],
}
_MEMBERS: dict[str, bytes | None] = {
    "config.dump": json.dumps(_CONFIG).encode(),
    "spec.dump": json.dumps(_SPEC).encode(),
    "checkpoint/inventory.img": b"inventory",
}
Change = Callable[[dict[str, Any]], None]


def _write(path: Path, **members: bytes | None) -> Path:
    """Write an archive that is whole but for these members; None: it is not there."""
    with tarfile.open(path, "w") as tar:
        for name, content in {**_MEMBERS, **members}.items():
            if content is not None:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def fake(tmp_path: Path) -> FakeHost:
    """Give a host in memory."""
    return fake_host(tmp_path / "host")


def _take(fake: FakeHost, source: Path, name: str | None = None) -> importing.Imported:
    return importing.take(fake.host, source, name=name, store=None, observer=Listener())


def _refused(fake: FakeHost, source: Path, name: str | None = None) -> str:
    """Return why an archive is refused."""
    with pytest.raises(ArchiveUnfit) as refused:
        _take(fake, source, name)
    assert list(fake.host.paths.scratch.iterdir()) == []
    assert list(fake.host.paths.memory.iterdir()) == []
    assert fake.host.store().ids() == []
    assert refused.value.fields["archive"] == source
    return str(refused.value.fields["reason"])


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"checkpoint/inventory.img": None}, "it has no process images"),
        ({"config.dump": None}, "it has no config.dump"),
        ({"config.dump": None, "spec.dump": None}, "it has no config.dump and no spec.dump"),
        ({"config.dump": b""}, "its description makes no sense"),
        ({"config.dump": b"{}"}, "its description makes no sense"),
        ({"spec.dump": b"[]"}, "its description makes no sense"),
        ({"spec.dump": b"{}"}, "its specification makes no sense"),
        ({"spec.dump": b'{"process": []}'}, "its specification makes no sense"),
        (
            {"spec.dump": json.dumps({**_SPEC, "process": {}}).encode()},
            "its specification makes no sense",
        ),
        ({"checkpoint/parent": b""}, "its memory builds upon a pre-checkpoint"),
        (
            {"checkpoint/inventory.img": None, "pre-checkpoint": b""},
            "it is a pre-checkpoint, which has memory only",
        ),
    ],
    ids=str,
)
def test_archive_that_lacks_something_is_refused(
    fake: FakeHost, tmp_path: Path, members: dict[str, bytes | None], reason: str
) -> None:
    """The ladder from an empty archive to a whole one."""
    assert _refused(fake, _write(tmp_path / "x.tar", **members)).startswith(reason)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rootfsImageID": ""}, "Podman has not made it"),
        ({"pod": "3" * 64}, "its container shares namespaces"),
        ({"Dependencies": ["3" * 64]}, "its container shares namespaces"),
        ({"runtime": "crun"}, "its processes were saved through crun"),
        ({"runtime": "/usr/bin/crun"}, "its processes were saved through crun"),
        ({"CreateCommand": None}, "its description makes no sense"),
        ({"CreateCommand": []}, "it does not say by which command line"),
        ({"CreateCommand": ["compose", "up"]}, "it does not say by which command line"),
        ({"CreateCommand": ["podman", "run", "--name"]}, "its container's command line makes no"),
        ({"name": "a b"}, "'a b' cannot be a job's name; give another one with --name"),
    ],
    ids=str,
)
def test_container_that_cannot_go_on_is_refused(
    fake: FakeHost, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    """Before anything is asked of the engine."""
    raw = json.dumps({**_CONFIG, **changes}).encode()
    assert _refused(fake, _write(tmp_path / "x.tar", **{"config.dump": raw})).startswith(reason)


def test_container_with_the_hosts_network_is_refused(fake: FakeHost, tmp_path: Path) -> None:
    """As spotrun refuses to save one."""
    spec = {**_SPEC, "linux": {"namespaces": [{"type": "pid"}, {"type": "ipc"}]}}
    archive = _write(tmp_path / "x.tar", **{"spec.dump": json.dumps(spec).encode()})
    assert _refused(fake, archive).startswith("it shares the host's network")


def test_missing_image_is_named(fake: FakeHost, tmp_path: Path) -> None:
    """It is neither here nor to be had."""
    reason = _refused(fake, _write(tmp_path / "x.tar"))
    assert reason.startswith("its image localhost/busybox:1 is not here and cannot be had")


def test_other_image_of_the_same_name_is_not_taken(fake: FakeHost, tmp_path: Path) -> None:
    """Processes go on over the very files that they had."""
    fake.engine.add_image("localhost/busybox:1", b"another")
    assert "is not here" in _refused(fake, _write(tmp_path / "x.tar"))


def test_name_that_no_job_can_have_is_refused(fake: FakeHost, tmp_path: Path) -> None:
    """Also when it is the user's."""
    assert "'../x' cannot be" in _refused(fake, _write(tmp_path / "x.tar"), "../x")


def test_missing_archive_is_named(fake: FakeHost, tmp_path: Path) -> None:
    """A folder is none."""
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match=f"^{path} is no file$"):
            _take(fake, path)


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/etc/a", "etc/a"),
        ("etc/a", "etc/a"),
        ("./etc/a", "etc/a"),
        ("/link", "link"),
        ("/link/a", None),
        ("/etc/../../a", None),
        ("/etc/link/a", None),
    ],
)
def test_paths_of_an_archive_stay_in_the_container(
    tmp_path: Path, path: str, there: str | None
) -> None:
    """No link of the image leads a file of the archive to this host."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "etc" / "link").symlink_to("/etc")
    if there:
        assert overlaid.within(tmp_path, path) == tmp_path / there
        return
    with pytest.raises(overlaid.Outside):
        overlaid.within(tmp_path, path)
