"""Snapshots in a directory: whole or invisible.

    STORE/spotrun-store.json                 {"format": 1}
    STORE/snapshots/JOB/SNAPSHOT/            manifest.json, criu/, trees/, log
    STORE/images/IMAGE-ID/                   an image in the `dir:` form, layers as links into
    STORE/blobs/HEX                          layers, named by the SHA-256 of their content
    STORE/staging/NAME/                      what is not whole yet

A snapshot is written to staging, its manifest last; then everything is fsynced and the folder
renamed to its place, which is the commit.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from spotrun.images.durable import sync_directory, sync_tree, write_atomic, write_json
from spotrun.images.errors import SnapshotDamaged, SnapshotNotFound, UsageError
from spotrun.images.manifest import FORMAT, Manifest, decode, encode

MANIFEST: Final = "manifest.json"


class DirectoryStore:
    """A store in one directory of a local or shared file system."""

    def __init__(self, root: Path) -> None:
        """Use the store at `root`; it is made when first written to."""
        self.root = root

    def __str__(self) -> str:
        """Return what a user calls it."""
        return str(self.root)

    @property
    def images(self) -> Path:
        """Folder of the images that travel with jobs."""
        return self.root / "images"

    @property
    def blobs(self) -> Path:
        """Folder of the layers of those images."""
        return self.root / "blobs"

    def prepare(self) -> None:
        """Make the store's folders, readable by their owner only; refuse a foreign format."""
        for folder in (self.root, self.staging, self.snapshots, self.images, self.blobs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        identity = self.root / "spotrun-store.json"
        if not identity.exists():
            write_json(identity, {"format": FORMAT})
            return
        found = json.loads(identity.read_bytes()).get("format")
        if found != FORMAT:
            raise UsageError(message=f"{self} has format {found}, this spotrun knows {FORMAT}")

    def stage(self, name: str) -> Path:
        """Return a new folder, invisible to readers, on the store's file system."""
        self.prepare()
        folder = self.staging / name
        folder.mkdir(mode=0o700)
        return folder

    def discard(self, name: str) -> None:
        """Remove what was staged under that name, if anything."""
        shutil.rmtree(self.staging / name, ignore_errors=True)

    def publish(self, staged: Path, manifest: Manifest) -> None:
        """Commit a staged snapshot: durable and visible, or an exception and neither."""
        write_atomic(staged / MANIFEST, encode(manifest))
        sync_tree(staged)
        place = self._folder(manifest.job, manifest.snapshot)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        staged.rename(place)
        sync_directory(place.parent)
        sync_directory(self.snapshots)

    def has(self, job: str, snapshot: str) -> bool:
        """Tell whether that snapshot is committed."""
        return (self._folder(job, snapshot) / MANIFEST).is_file()

    def manifests(self, job: str | None = None) -> list[Manifest]:
        """Return the manifests of all readable snapshots, of one job or all, oldest first."""
        found = []
        for names in self._names(job):
            with suppress(SnapshotDamaged, SnapshotNotFound):  # the others are still good
                found.append(self.load(*names))
        return sorted(found, key=lambda manifest: (manifest.created, manifest.snapshot))

    def load(self, job: str, snapshot: str) -> Manifest:
        """Return a snapshot's manifest, or raise SnapshotNotFound or SnapshotDamaged."""
        try:
            raw = (self._folder(job, snapshot) / MANIFEST).read_bytes()
        except OSError:
            raise SnapshotNotFound(which=snapshot, store=self) from None
        try:
            return decode(raw)
        except ValueError as error:
            raise SnapshotDamaged(snapshot=snapshot, reason=f"{MANIFEST}: {error}") from error

    def find(self, job: str, snapshot: str | None) -> Manifest:
        """Return the named snapshot of a job, or its newest."""
        if snapshot is not None:
            return self.load(job, snapshot)
        found = self.manifests(job)
        if not found:
            raise SnapshotNotFound(which=f"of job {job!r}", store=self)
        return found[-1]

    def fetch(self, manifest: Manifest) -> Path:
        """Return the folder of a snapshot whose files are all there and of the right size."""
        folder = self._folder(manifest.job, manifest.snapshot)
        check_files(folder, manifest)
        return folder

    def remove(self, job: str, snapshot: str) -> None:
        """Take a snapshot away, at once for readers."""
        self.prepare()
        grave = self.staging / f"removed-{snapshot}"
        try:
            self._folder(job, snapshot).rename(grave)
        except FileNotFoundError:
            return
        shutil.rmtree(grave)

    @property
    def staging(self) -> Path:
        """Folder of what is not whole."""
        return self.root / "staging"

    @property
    def snapshots(self) -> Path:
        """Folder of the committed snapshots, by job."""
        return self.root / "snapshots"

    def _folder(self, job: str, snapshot: str) -> Path:
        return self.snapshots / job / snapshot

    def _names(self, job: str | None) -> Iterator[tuple[str, str]]:
        for manifest in self.snapshots.glob(f"{job or '*'}/*/{MANIFEST}"):
            yield manifest.parent.parent.name, manifest.parent.name


def check_files(folder: Path, manifest: Manifest) -> None:
    """Raise SnapshotDamaged unless every file is there and has its size."""
    for path, size in manifest.files.items():
        file = folder / path
        found = file.stat().st_size if file.is_file() else None
        if found != size:
            state = "is missing" if found is None else f"has {found} bytes, not {size}"
            raise SnapshotDamaged(snapshot=manifest.snapshot, reason=f"{path} {state}")


def file_sizes(folder: Path) -> dict[str, int]:
    """Return the path, relative to `folder`, and size of every file in it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_size for path in files}
