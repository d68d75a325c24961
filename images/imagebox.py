"""Images that travel with jobs: in the `dir:` form, each layer once for all images.

    images/IMAGE-ID/    manifest.json, version, the configuration, and a link for each layer
    blobs/HEX           the layers

(containers-transports(5) describes the `dir:` form.)
"""

import shutil
from pathlib import Path

from spotrun.images.durable import sync_directory, sync_tree
from spotrun.images.manifest import ImageRef
from spotrun.images.store import DirectoryStore


def has(store: DirectoryStore, image: ImageRef) -> bool:
    """Tell whether the store has that image whole."""
    return place(store, image).is_dir()


def place(store: DirectoryStore, image: ImageRef) -> Path:
    """Return the folder an engine can load the image from."""
    return store.images / image.id


def put(store: DirectoryStore, image: ImageRef, folder: Path) -> int:
    """Take a saved image into the store, durably; return the bytes that were new."""
    new = 0
    sync_tree(folder)
    for layer in dict.fromkeys(image.layers):
        name = layer.removeprefix("sha256:")
        blob, saved = store.blobs / name, folder / name
        if not blob.exists():
            new += saved.stat().st_size
            saved.rename(blob)
        else:
            saved.unlink()
        saved.symlink_to(Path("..", "..", "blobs", name))
    sync_directory(store.blobs)
    if has(store, image):
        shutil.rmtree(folder)
    else:
        folder.rename(place(store, image))
        sync_directory(store.images)
    return new


def files(store: DirectoryStore, image: ImageRef, *, without: frozenset[str]) -> list[str]:
    """Return the names in an image's folder, except layers that are elsewhere."""
    skipped = {layer.removeprefix("sha256:") for layer in without}
    return sorted(path.name for path in place(store, image).iterdir() if path.name not in skipped)
