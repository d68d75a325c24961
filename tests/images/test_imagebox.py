"""Images that travel with jobs keep each layer once."""

from hashlib import sha256
from pathlib import Path

import pytest

from spotrun.images import imagebox
from spotrun.images.manifest import ImageRef
from spotrun.images.store import DirectoryStore

_BASE, _MINE, _YOURS = b"base" * 1000, b"mine" * 10, b"yours" * 10


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    """Give an empty store."""
    return DirectoryStore(tmp_path / "store")


def _hex(layer: bytes) -> str:
    return sha256(layer).hexdigest()


def _put(store: DirectoryStore, identity: str, *layers: bytes) -> tuple[ImageRef, int]:
    """Take an image in the `dir:` form into the store, as an engine saves it."""
    digests = tuple(f"sha256:{_hex(layer)}" for layer in layers)
    image = ImageRef(f"localhost/{identity}:1", identity, None, digests)
    folder = store.stage(f"snapshot-of-{identity}") / "image"
    folder.mkdir()
    (folder / "manifest.json").write_text(identity)
    for layer in layers:
        (folder / _hex(layer)).write_bytes(layer)
    return image, imagebox.put(store, image, folder)


def test_image_is_in_the_store_once_it_was_put_there(store: DirectoryStore) -> None:
    """An engine finds its configuration and layers where `place` says."""
    image, new = _put(store, "one", _BASE, _MINE)
    assert new == len(_BASE) + len(_MINE)
    assert imagebox.has(store, image)
    place = imagebox.place(store, image)
    assert (place / "manifest.json").read_text() == "one"
    assert [(place / _hex(layer)).read_bytes() for layer in (_BASE, _MINE)] == [_BASE, _MINE]


def test_store_has_no_image_that_was_not_put(store: DirectoryStore) -> None:
    """Another image with the same layers is another image."""
    image, _ = _put(store, "one", _BASE)
    assert not imagebox.has(store, ImageRef(image.name, "two", None, image.layers))


def test_shared_layer_adds_no_bytes(store: DirectoryStore) -> None:
    """A second image on the same base costs what it adds."""
    _put(store, "one", _BASE, _MINE)
    _, new = _put(store, "two", _BASE, _YOURS)
    assert new == len(_YOURS)
    blobs = {path.name: path.stat().st_size for path in store.blobs.iterdir()}
    assert blobs == {_hex(layer): len(layer) for layer in (_BASE, _MINE, _YOURS)}


def test_layer_that_comes_twice_in_an_image_is_kept_once(store: DirectoryStore) -> None:
    """Empty layers often do."""
    image, new = _put(store, "one", _BASE, _MINE, _BASE)
    assert new == len(_BASE) + len(_MINE)
    assert len(list(imagebox.place(store, image).iterdir())) == 3


def test_image_that_is_there_already_is_not_put_twice(store: DirectoryStore) -> None:
    """Nothing changes, and the folder it came in is gone."""
    image, _ = _put(store, "one", _BASE)
    store.discard("snapshot-of-one")
    _, new = _put(store, "one", _BASE)
    assert new == 0
    assert not list((store.staging / "snapshot-of-one").iterdir())
    assert (imagebox.place(store, image) / _hex(_BASE)).read_bytes() == _BASE


def test_image_can_be_read_after_the_store_has_moved(store: DirectoryStore, tmp_path: Path) -> None:
    """The links into the common layers are relative."""
    image, _ = _put(store, "one", _BASE)
    moved = DirectoryStore(store.root.rename(tmp_path / "elsewhere"))
    assert (imagebox.place(moved, image) / _hex(_BASE)).read_bytes() == _BASE


def test_layers_that_are_elsewhere_are_left_out(store: DirectoryStore) -> None:
    """Only what the target lacks is sent to it, but always the configuration."""
    image, _ = _put(store, "one", _BASE, _MINE)
    everything = sorted(["manifest.json", _hex(_BASE), _hex(_MINE)])
    assert imagebox.files(store, image, without=frozenset()) == everything
    elsewhere = frozenset([f"sha256:{_hex(_BASE)}", "sha256:unrelated"])
    assert imagebox.files(store, image, without=elsewhere) == sorted(["manifest.json", _hex(_MINE)])
