"""Images that travel with jobs: the files of their `dir:` form, kept as chunks like all else.

(containers-transports(5) describes the `dir:` form.)
"""

from pathlib import Path

from spotrun.images.pushing import Push
from spotrun.images.runspec import ImageRef
from spotrun.images.store import Store, StoredImage, Tell, file_sizes


def put(
    store: Store,
    push: Push,
    image: ImageRef,
    folder: Path,
    *,
    threads: int | None,
    tell: Tell | None,
) -> int:
    """Take a saved image into the store; return the bytes that were sent."""
    before, files = push.moved, file_sizes(folder)
    content = push.store(folder, files, threads=threads, tell=tell)
    store.put_image(StoredImage(image, files, content))
    return push.moved - before


def get(store: Store, image: ImageRef, folder: Path, tell: Tell | None = None) -> bool:
    """Write the files that an engine can load the image from; False: the store has none."""
    stored = store.image(image)
    if stored is None:
        return False
    store.fetch_image(stored, folder, tell)
    return True


def names(folder: Path, *, without: frozenset[str]) -> list[str]:
    """Return the files of a saved image, except layers that are elsewhere."""
    skipped = {layer.removeprefix("sha256:") for layer in without}
    return sorted(path.name for path in folder.iterdir() if path.name not in skipped)
