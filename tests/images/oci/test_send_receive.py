"""A snapshot goes into a real registry and comes back; a second one sends what is new."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from spotrun.images import trees
from spotrun.images.errors import (
    NotExportable,
    RegistryUnavailable,
    SnapshotDamaged,
    SnapshotNotFound,
)
from spotrun.images.manifest import Manifest, Tree
from spotrun.images.meter import Progress
from spotrun.images.oci import artefact, receive, send
from spotrun.images.oci.reference import Reference
from spotrun.images.oci.registry import Registry, digest_of
from spotrun.images.oci.send import Sent
from spotrun.images.process import SystemRunner
from tests.fakes.docker_registry import DockerRegistry
from tests.fakes.snapshots import IMAGE, manifest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make such files")
pytestmark = [pytest.mark.registry, needs_root]
_RUNNER = SystemRunner()
_MB = 1 << 20
_ROOT = Tree("rootfs", "trees/0.tar", "/")
_VOLUME = Tree("mount", "trees/1.tar", "/data", "data")


@dataclass(frozen=True, slots=True)
class Made:
    """A snapshot's files in a folder."""

    manifest: Manifest
    folder: Path


@pytest.fixture
def registry(docker_registry: DockerRegistry) -> Registry:
    """Give a repository that nobody else uses."""
    return Registry(Reference(docker_registry.name, f"team/{uuid4().hex}", "newest"), None)


def _at(registry: Registry, tag: str) -> Registry:
    return Registry(replace(registry.reference, tag=tag), None)


def _memory(seed: int = 0, size: int = 40 * _MB) -> bytes:
    return Random(seed).randbytes(size)


def _made(
    folder: Path,
    memory: bytes,
    files: Mapping[str, str] | None = None,
    **changes: Any,  # noqa: ANN401 # any field
) -> Made:
    """Make the files of a snapshot with that memory and those changed files."""
    upper = folder / "upper"
    for name, text in (files if files is not None else {"etc/changed": "new"}).items():
        (upper / name).parent.mkdir(parents=True, exist_ok=True)
        (upper / name).write_text(text)
        os.utime(upper / name, ns=(1, 1))
    for path in [*upper.rglob("*/"), upper]:
        os.utime(path, ns=(1, 1))
    made = folder / "files"
    for sub in ("criu", "work", "trees"):
        (made / sub).mkdir(parents=True)
    (made / "criu" / "pages-1.img").write_bytes(memory)
    (made / "work" / "dump.log").write_text("log of CRIU")
    (made / "log").write_text("output")
    (made / "trees" / "1.tar").write_bytes(b"volume")
    trees.pack(_RUNNER, upper, made / "trees" / "0.tar")
    return Made(manifest(trees=(_ROOT, _VOLUME), log="log", **changes), made)


def _send(registry: Registry, made: Made, **more: Any) -> Sent:  # noqa: ANN401 # its options
    scratch = made.folder.parent / f"scratch-{uuid4().hex}"
    packed = send.pack(registry, made.manifest, made.folder, scratch, runner=_RUNNER, **more)
    return send.send(registry, packed, **more)


def _received(registry: Registry, folder: Path, **more: Any) -> Made:  # noqa: ANN401 # its options
    found, described = receive.look(registry)
    (folder / "files").mkdir(parents=True)
    got = receive.receive(
        registry, found, described, folder / "files", folder / "scratch", runner=_RUNNER, **more
    )
    return Made(got.manifest, folder / "files")


def _document(registry: Registry) -> dict[str, Any]:
    raw = registry.manifest(registry.reference.wanted)
    assert raw
    document: dict[str, Any] = json.loads(raw)
    return document


def _files(folder: Path) -> dict[str, bytes]:
    """Return all files but the archive of the changed ones."""
    found = {str(it.relative_to(folder)): it for it in folder.rglob("*") if it.is_file()}
    return {name: it.read_bytes() for name, it in found.items() if name != _ROOT.archive}


def test_snapshot_comes_back_as_it_was(registry: Registry, tmp_path: Path) -> None:
    """Every file, and the manifest but for where its bytes are."""
    made = _made(tmp_path / "a", _memory())
    told: list[Progress] = []
    sent = _send(registry, made, tell=told.append)
    assert sent.bytes > 40 * _MB
    got = _received(registry, tmp_path / "b", tell=told.append)
    assert _files(got.folder) == _files(made.folder)
    upper = tmp_path / "upper"
    upper.mkdir()
    trees.unpack(_RUNNER, got.folder / _ROOT.archive, upper)
    assert (upper / "etc" / "changed").read_text() == "new"
    expected = replace(made.manifest, files=got.manifest.files, content=got.manifest.content)
    assert got.manifest == expected
    assert set(got.manifest.files) == {*_files(made.folder), _ROOT.archive}
    assert all(it.done <= it.total for it in told)


def test_artefact_is_an_image_upon_its_base(registry: Registry, tmp_path: Path) -> None:
    """Base by reference, changed files as its ordinary layer, all else in blobs of bounded size."""
    base = f"docker.io/library/busybox@sha256:{'b' * 64}"
    made = _made(tmp_path / "a", _memory(), image=replace(IMAGE, digest=base))
    sent = _send(registry, made)
    document = _document(registry)
    assert document["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    assert document["artifactType"] == "application/vnd.spotrun.snapshot.v1"
    notes = document["annotations"]
    assert notes["org.opencontainers.image.base.name"] == IMAGE.name
    assert notes["org.opencontainers.image.base.digest"] == f"sha256:{'b' * 64}"
    types = [it["mediaType"] for it in document["layers"]]
    assert types[:2] == ["application/vnd.oci.image.layer.v1.tar+zstd", artefact.DESCRIPTION]
    assert set(types[2:]) == {artefact.PACK}
    assert len(types) > 3
    assert max(it["size"] for it in document["layers"]) < 40 * _MB
    digest = document["config"]["digest"]
    config = json.loads(registry.small(digest, document["config"]["size"], _MB))
    assert (config["os"], config["architecture"]) == ("linux", "amd64")
    assert len(config["rootfs"]["diff_ids"]) == len(types)
    assert registry.manifest(sent.digest) == registry.manifest("newest")


def test_every_community_finds_its_annotations(registry: Registry, tmp_path: Path) -> None:
    """Podman's, CRI-O's and checkpointctl's, with what this host knows."""
    _send(registry, _made(tmp_path / "a", b"memory"))
    notes = _document(registry)["annotations"]
    assert notes["io.podman.annotations.checkpoint.name"] == "train"
    assert notes["io.podman.annotations.checkpoint.rootfsImageID"] == IMAGE.id
    assert notes["io.podman.annotations.checkpoint.podman.version"] == "5.4.2"
    assert notes["io.podman.annotations.checkpoint.criu.version"] == "40201"
    assert notes["io.podman.annotations.checkpoint.host.arch"] == "amd64"
    assert notes["io.kubernetes.cri-o.annotations.checkpoint.name"] == "train"
    assert notes["org.criu.checkpoint.container.name"] == "train"
    assert notes["org.criu.checkpoint.engine.name"] == "podman"
    assert notes["org.criu.checkpoint.runtime.name"] == "runc"
    assert notes["org.criu.checkpoint.criu.version"] == "4.2.1"
    assert "org.opencontainers.image.base.digest" not in notes


@pytest.mark.parametrize("tag", ["newest", "other"])
def test_second_push_sends_only_what_is_new(
    registry: Registry, docker_registry: DockerRegistry, tmp_path: Path, tag: str
) -> None:
    """Under the same tag or another: one changed part of memory, not the rest of it."""
    memory = bytearray(_memory())
    first = _send(registry, _made(tmp_path / "a", bytes(memory)))
    before = set(docker_registry.blobs)
    layers = {it["digest"] for it in _document(registry)["layers"]}
    memory[20 * _MB : 21 * _MB] = _memory(1, _MB)
    made = _made(tmp_path / "b", bytes(memory), snapshot="20261201T110000Z-00000b")
    second = _send(_at(registry, tag), made)
    new = {digest: it for digest, it in docker_registry.blobs.items() if digest not in before}
    assert sum(it.stat().st_size for it in new.values()) < 1.1 * _MB
    assert second.bytes < 1.1 * _MB < 40 * _MB < first.bytes
    assert len(new) == second.blobs + 1  # the artefact's manifest
    shared = layers & {it["digest"] for it in _document(_at(registry, tag))["layers"]}
    assert len(shared) >= len(layers) - 2
    assert _files(_received(_at(registry, tag), tmp_path / "c").folder) == _files(made.folder)


def test_changed_files_that_are_the_same_are_sent_once(registry: Registry, tmp_path: Path) -> None:
    """Their layer is the same to the byte."""
    _send(registry, _made(tmp_path / "a", b"one"))
    first = _document(registry)["layers"][0]
    _send(registry, _made(tmp_path / "b", b"two"))
    assert _document(registry)["layers"][0] == first


def test_other_jobs_and_other_images_in_the_repository_do_no_harm(
    registry: Registry, tmp_path: Path
) -> None:
    """Nothing is built upon another job's snapshot, or upon what is none."""
    config = b"{}"
    digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    registry.put(digest, config)
    image = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": artefact.CONFIG, "digest": digest, "size": len(config)},
        "layers": [],
    }
    registry.publish(json.dumps(image).encode(), "image")
    _send(_at(registry, "other"), _made(tmp_path / "a", _memory(), job="other"))
    theirs = {it["digest"] for it in _document(_at(registry, "other"))["layers"][1:]}
    _send(registry, _made(tmp_path / "b", _memory()))
    assert not theirs & {it["digest"] for it in _document(registry)["layers"][1:]}
    with pytest.raises(SnapshotDamaged, match="it is an image, not a snapshot of spotrun"):
        receive.look(_at(registry, "image"))


def test_missing_tag_and_missing_repository_are_named(registry: Registry, tmp_path: Path) -> None:
    """With the place where they were looked for."""
    where = f"{registry.reference.registry}/{registry.reference.repository}"
    with pytest.raises(SnapshotNotFound, match=f"^no snapshot newest in {where}$"):
        receive.look(registry)
    _send(registry, _made(tmp_path / "a", b"memory"))
    with pytest.raises(SnapshotNotFound, match=r"^no snapshot none in"):
        receive.look(_at(registry, "none"))
    digest = f"sha256:{'0' * 64}"
    with pytest.raises(SnapshotNotFound, match=f"^no snapshot {digest} in"):
        receive.look(Registry(replace(registry.reference, digest=digest), None))


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["changed files", "manifest", "pack"])
@pytest.mark.parametrize("damage", ["flipped", "cut off", "removed"])
def test_damaged_blob_is_named(
    registry: Registry, docker_registry: DockerRegistry, tmp_path: Path, kind: int, damage: str
) -> None:
    """One byte, the end, or the whole of any blob: nothing of it is believed."""
    _send(registry, _made(tmp_path / "a", b"memory" * 100))
    digest = _document(registry)["layers"][kind]["digest"]
    path = docker_registry.blobs[digest]
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    match damage:
        case "flipped":
            path.write_bytes(raw)
        case "cut off":
            path.write_bytes(raw[:-1])
        case "removed":
            path.unlink()
    with pytest.raises(SnapshotDamaged, match=digest) as refused:
        _received(registry, tmp_path / "b")
    assert str(refused.value).startswith(f"snapshot {registry.reference} is damaged: blob ")


def test_damaged_manifest_is_named(
    registry: Registry, docker_registry: DockerRegistry, tmp_path: Path
) -> None:
    """Asked for by its digest, it must have it; the registry itself looks after its tags."""
    sent = _send(registry, _made(tmp_path / "a", b"memory"))
    path = docker_registry.blobs[sent.digest]
    path.write_bytes(path.read_bytes().replace(b"train", b"brain"))
    with pytest.raises((SnapshotDamaged, RegistryUnavailable)):
        receive.look(Registry(replace(registry.reference, digest=sent.digest), None))


def test_push_heals_what_the_registry_has_lost(
    registry: Registry, docker_registry: DockerRegistry, tmp_path: Path
) -> None:
    """A pack whose end cannot be read is not built upon."""
    _send(registry, _made(tmp_path / "a", _memory()))
    for it in _document(registry)["layers"][2:]:
        docker_registry.blobs[it["digest"]].unlink()
    made = _made(tmp_path / "b", _memory())
    _send(registry, made)
    assert _files(_received(registry, tmp_path / "c").folder) == _files(made.folder)


def test_push_that_breaks_off_shows_nothing(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tag stays what it was, and the next push is whole."""
    sent = _send(registry, _made(tmp_path / "a", b"memory"))
    made = _made(tmp_path / "b", _memory())

    def broken(_: Registry, digest: str, source: object) -> bool:  # noqa: ARG001 # of `put`
        raise RegistryUnavailable(registry="it", reason="the connection broke")

    with monkeypatch.context() as patched:
        patched.setattr(Registry, "put", broken)
        with pytest.raises(RegistryUnavailable):
            _send(registry, made)
    assert registry.manifest("newest") == registry.manifest(sent.digest)
    _send(registry, made)
    assert _files(_received(registry, tmp_path / "c").folder) == _files(made.folder)


def test_snapshot_without_changed_files_has_no_layer(registry: Registry, tmp_path: Path) -> None:
    """It comes back without them."""
    made = _made(tmp_path / "a", b"memory")
    (made.folder / _ROOT.archive).unlink()
    made = Made(replace(made.manifest, trees=(_VOLUME,)), made.folder)
    _send(registry, made)
    got = _received(registry, tmp_path / "b")
    assert _files(got.folder) == _files(made.folder)
    assert not (got.folder / _ROOT.archive).exists()


def test_files_that_no_layer_can_have_are_refused(registry: Registry, tmp_path: Path) -> None:
    """Before anything is sent."""
    made = _made(tmp_path / "a", b"memory", {".wh.x": ""})
    with pytest.raises(NotExportable, match=r"cannot be pushed: its file \.wh\.x"):
        _send(registry, made)
    assert registry.tags() == []


def _forged(registry: Registry, **changes: Any) -> None:  # noqa: ANN401 # any field
    """Put a manifest of spotrun into an artefact that is whole otherwise."""
    document = _document(registry)
    at = document["layers"][1]
    described = json.loads(registry.small(at["digest"], at["size"], _MB)) | changes
    raw = json.dumps(described).encode()
    at["digest"], at["size"] = digest_of(raw), len(raw)
    registry.put(at["digest"], raw)
    registry.publish(json.dumps(document).encode(), registry.reference.wanted)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trees": [{"kind": "rootfs", "archive": "../x", "destination": "/"}]}, "lies elsewhere"),
        ({"trees": [{"kind": "rootfs", "archive": "/x", "destination": "/"}]}, "lies elsewhere"),
        ({"trees": []}, "lacks some of its layers"),
        ({"log": "/etc/shadow"}, "lacks some of its files"),
        ({"job": "../x"}, "characters that names cannot have"),
        ({"format": 99}, "format 99 is not known"),
        ({"files": {"../x": 1}}, "files"),
    ],
)
def test_artefact_that_leads_out_of_its_folder_is_refused(
    registry: Registry, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    """Whoever can write to a repository must not write to this host."""
    _send(registry, _made(tmp_path / "a", b"memory"))
    _forged(registry, **changes)
    with pytest.raises(SnapshotDamaged, match=said):
        _received(registry, tmp_path / "b" / "c")
    assert not list(tmp_path.glob("**/x"))
