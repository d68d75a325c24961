"""Snapshots go from a store into a real registry, and from there into another store."""

import os
from pathlib import Path
from uuid import uuid4

import pytest

from spotrun.images import trees
from spotrun.images.address import Address
from spotrun.images.errors import NotExportable, SnapshotNotFound, UsageError
from spotrun.images.manifest import Manifest, Tree
from spotrun.images.process import SystemRunner
from spotrun.images.store import file_sizes
from spotrun.runtime import fitness, registry
from spotrun.runtime.host import Host
from tests.fakes.docker_registry import DockerRegistry
from tests.fakes.host import fake_host
from tests.fakes.observer import Listener
from tests.fakes.snapshots import manifest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make such files")
pytestmark = [pytest.mark.registry, needs_root]
_SECOND = "20261201T110000Z-00000b"


@pytest.fixture
def target(docker_registry: DockerRegistry) -> str:
    """Give a place in a repository that nobody else uses."""
    return f"oci://{docker_registry.name}/team/{uuid4().hex}:newest"


def _host(folder: Path) -> Host:
    """Return a host in memory whose tar is the real one."""
    made = fake_host(folder).host
    return Host(
        paths=made.paths,
        runner=SystemRunner(),
        clock=made.clock,
        engine=made.engine,
        oci=made.oci,
        gpu=made.gpu,
    )


def _save(host: Host, folder: Path, address: Address | None = None, **changes: str) -> Manifest:
    """Store a small snapshot."""
    files = folder / uuid4().hex
    (files / "trees").mkdir(parents=True)
    (files / "criu").mkdir()
    (files / "criu" / "pages-1.img").write_bytes(b"memory of " + files.name.encode())
    upper = folder / f"{files.name}-upper"
    upper.mkdir()
    (upper / "made").write_text("made")
    trees.pack(SystemRunner(), upper, files / "trees" / "0.tar")
    sizes, root = file_sizes(files), Tree("rootfs", "trees/0.tar", "/")
    described = manifest(files=sizes, trees=(root,), **changes)
    store = host.store(address, make=True)
    push = store.begin("test", described.job, "host")
    content = push.store(files, sizes, threads=None, tell=None)
    described = manifest(files=sizes, trees=(root,), content=content, **changes)
    push.publish(described)
    push.end()
    return described


def _push(
    host: Host, which: str, target: str, store: Address | None = None, **more: bool
) -> registry.Pushed:
    options = {"plain_http": False, "unencrypted": False, **more}
    return registry.push(host, which, target, store=store, observer=Listener(), **options)


def _pull(host: Host, source: str, store: Address | None = None) -> registry.Pulled:
    return registry.pull(host, source, store=store, plain_http=False, observer=Listener())


def test_snapshot_goes_on_to_another_host(tmp_path: Path, target: str) -> None:
    """By its job's name or its own; the memory that comes is the memory that went."""
    a, b = _host(tmp_path / "a"), _host(tmp_path / "b")
    first, second = _save(a, tmp_path), _save(a, tmp_path, snapshot=_SECOND)
    pushed = _push(a, "train", target)
    assert (pushed.job, pushed.snapshot, pushed.reference) == ("train", _SECOND, target)
    pulled = _pull(b, target)
    assert (pulled.job, pulled.snapshot, pulled.new) == ("train", _SECOND, True)
    got = b.store().find("train", None)
    b.store().fetch(got, tmp_path / "got")
    a.store().fetch(second, tmp_path / "sent")
    page = Path("criu", "pages-1.img")
    assert (tmp_path / "got" / page).read_bytes() == (tmp_path / "sent" / page).read_bytes()
    trees.unpack(SystemRunner(), tmp_path / "got" / "trees" / "0.tar", tmp_path / "got")
    assert (tmp_path / "got" / "made").read_text() == "made"
    _push(a, first.snapshot, target)
    assert _pull(b, target).snapshot == first.snapshot
    assert len(b.store().ids()) == 2
    for host in (a, b):
        assert list(host.paths.scratch.iterdir()) == []
        assert list(host.paths.memory.iterdir()) == []
        assert list(host.store().holds.held()) == []


def test_pull_of_a_snapshot_that_is_there_is_no_error(tmp_path: Path, target: str) -> None:
    """Nothing is done; by the digest that the push gave it is the same one."""
    host = _host(tmp_path / "a")
    saved = _save(host, tmp_path)
    pushed = _push(host, saved.snapshot, target)
    pulled = _pull(host, f"{target}@{pushed.digest}")
    assert (pulled.snapshot, pulled.new, pulled.phases) == (saved.snapshot, False, [])


def test_snapshot_of_another_store_is_found_by_its_job(tmp_path: Path, target: str) -> None:
    """Where its user says it is; without a word this host's own store is looked into."""
    host = _host(tmp_path / "a")
    other = Address(str(tmp_path / "other"))
    saved = _save(host, tmp_path, other)
    with pytest.raises(SnapshotNotFound, match="of job 'train'"):
        _push(host, "train", target)
    with pytest.raises(SnapshotNotFound, match=rf"no snapshot {saved.snapshot} in this host's"):
        _push(host, saved.snapshot, target)
    assert _push(host, "train", target, other).snapshot == saved.snapshot
    assert _push(host, saved.snapshot, target, other).snapshot == saved.snapshot


def test_encrypted_store_is_not_read_out_by_accident(tmp_path: Path, target: str) -> None:
    """A registry would have it readable; a pull can go into an encrypted store again."""
    host = _host(tmp_path / "a")
    key = tmp_path / "key"
    key.write_text("a secret of the store")
    locked = Address(str(tmp_path / "locked"), str(key))
    saved = _save(host, tmp_path, locked)
    with pytest.raises(
        NotExportable, match=f"^snapshot {saved.snapshot} cannot be pushed: .*--unencrypted"
    ):
        _push(host, "train", target, locked)
    _push(host, "train", target, locked, unencrypted=True)
    second = Address(str(tmp_path / "second"), str(key))
    assert _pull(host, target, second).new
    assert host.store(second).load("train", saved.snapshot).snapshot == saved.snapshot
    token = b"memory of "
    assert not [
        it for it in (tmp_path / "second").rglob("*") if it.is_file() and token in it.read_bytes()
    ]


def test_push_to_a_digest_is_refused(tmp_path: Path, target: str) -> None:
    """It comes of a push."""
    with pytest.raises(UsageError, match="only a pull can name a digest"):
        _push(_host(tmp_path), "train", f"{target}@sha256:{'0' * 64}")


def test_process_images_in_memory_are_sent(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they are while they are used makes no difference, nor does too little memory."""
    host = _host(tmp_path / "a")
    _save(host, tmp_path)
    for free in (0, 1 << 40):
        monkeypatch.setattr(fitness, "free_memory", lambda free=free: free)
        _push(host, "train", target)
        assert _pull(_host(tmp_path / f"b{free}"), target).new
