"""Snapshots for tests: small manifests, and whole ones in a store."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from spotrun.images.manifest import HostFacts, Kind, Manifest
from spotrun.images.recipe import Content
from spotrun.images.runspec import ImageRef, RunSpec
from spotrun.images.store import Store, file_sizes

NOW = datetime(2026, 12, 1, 10, tzinfo=UTC)
IMAGE = ImageRef("docker.io/library/busybox:1", "1" * 64, None, ("sha256:" + "a" * 64,))
FACTS = HostFacts(
    hostname="host-a",
    kernel="6.12.48",
    arch="x86_64",
    cpu_flags=("avx",),
    cgroup_layout="v2",
    criu="4.2.1",
    oci_runtime="runc 1.1.15",
    engine="podman 5.4.2",
)
_MANIFEST = Manifest(
    snapshot="20261201T100000Z-00000a",
    job="train",
    created="2026-12-01T10:00:00.000+00:00",
    kind=Kind.LIVE,
    epoch=0,
    parent=None,
    image=IMAGE,
    run=RunSpec((), IMAGE.name, ()),
    host=FACTS,
    oci_spec={},
    trees=(),
    log=None,
    files={},
    content=Content((), ()),
)


def manifest(**changes: Any) -> Manifest:  # noqa: ANN401 # any field
    """Return the manifest of a small snapshot, with these fields changed."""
    return replace(_MANIFEST, **changes)


def publish(store: Store, **changes: Any) -> Manifest:  # noqa: ANN401 # any field
    """Put a small snapshot into a store: a page image and a log."""
    described = manifest(**changes)
    with TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "criu").mkdir()
        (folder / "criu" / "pages-1.img").write_bytes(b"memory")
        (folder / "log").write_bytes(b"output")
        files = file_sizes(folder)
        push = store.begin(described.snapshot, described.job, "host")
        content = push.store(folder, files, threads=None, tell=None)
        described = replace(described, files=files, content=content, log="log")
        push.publish(described)
        push.end()
    return described
