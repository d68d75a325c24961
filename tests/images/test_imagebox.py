"""Images that travel with jobs keep each layer once."""

from hashlib import sha256
from itertools import count
from pathlib import Path
from random import Random

import pytest

from spotrun.images import imagebox
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.errors import SnapshotDamaged
from spotrun.images.runspec import ImageRef
from spotrun.images.seal import Plain
from spotrun.images.store import Store

_BASE, _MINE, _YOURS = (Random(seed).randbytes(300_000) for seed in range(3))
_SMALL = 10_000
_NUMBERS = count()


@pytest.fixture
def store() -> Store:
    """Give an empty store."""
    return Store(MemoryBackend(), Plain("store"))


def _hex(layer: bytes) -> str:
    return sha256(layer).hexdigest()


def _put(store: Store, folder: Path, identity: str, *layers: bytes) -> tuple[ImageRef, int]:
    """Take an image in the `dir:` form into the store, as an engine saves it."""
    digests = tuple(f"sha256:{_hex(layer)}" for layer in layers)
    image = ImageRef(f"localhost/{identity}:1", identity, None, digests)
    place = folder / f"saved-{next(_NUMBERS)}"
    place.mkdir()
    (place / "manifest.json").write_text(identity)
    for layer in layers:
        (place / _hex(layer)).write_bytes(layer)
    push = store.begin(place.name, "job", "host")
    sent = imagebox.put(store, push, image, place, threads=None, tell=None)
    push.end()
    return image, sent


def test_image_is_in_the_store_once_it_was_put_there(store: Store, tmp_path: Path) -> None:
    """Its configuration and layers come back as the engine saved them."""
    image, sent = _put(store, tmp_path, "one", _BASE, _MINE)
    assert sent > len(_BASE) + len(_MINE)
    assert imagebox.get(store, image, tmp_path / "back")
    assert (tmp_path / "back" / "manifest.json").read_text() == "one"
    for layer in (_BASE, _MINE):
        assert (tmp_path / "back" / _hex(layer)).read_bytes() == layer


def test_store_has_no_image_that_was_not_put(store: Store, tmp_path: Path) -> None:
    """Another image with the same layers is another image."""
    image, _ = _put(store, tmp_path, "one", _BASE)
    other = ImageRef(image.name, "two", None, image.layers)
    assert not imagebox.get(store, other, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_shared_layer_costs_next_to_nothing(store: Store, tmp_path: Path) -> None:
    """A second image on the same base costs what it adds."""
    _put(store, tmp_path, "one", _BASE, _MINE)
    _, sent = _put(store, tmp_path, "two", _BASE, _YOURS)
    assert len(_YOURS) < sent < len(_YOURS) + _SMALL


def test_image_that_is_there_already_costs_next_to_nothing(store: Store, tmp_path: Path) -> None:
    """It is only noted again."""
    image, _ = _put(store, tmp_path, "one", _BASE)
    _, sent = _put(store, tmp_path, "one", _BASE)
    assert sent < _SMALL
    assert imagebox.get(store, image, tmp_path / "back")


def test_damaged_image_is_named(store: Store, tmp_path: Path) -> None:
    """Nobody loads half an image."""
    image, _ = _put(store, tmp_path, "one", _BASE)
    store.backend.delete([entry.key for entry in store.backend.list("packs/")])
    with pytest.raises(SnapshotDamaged, match=r"with image localhost/one:1 is damaged: pack"):
        imagebox.get(store, image, tmp_path / "back")


def test_layers_that_are_elsewhere_are_left_out(store: Store, tmp_path: Path) -> None:
    """Only what the target lacks is sent to it, but always the configuration."""
    image, _ = _put(store, tmp_path, "one", _BASE, _MINE)
    imagebox.get(store, image, tmp_path / "back")
    everything = sorted(["manifest.json", _hex(_BASE), _hex(_MINE)])
    assert imagebox.names(tmp_path / "back", without=frozenset()) == everything
    elsewhere = frozenset([f"sha256:{_hex(_BASE)}", "sha256:unrelated"])
    left = imagebox.names(tmp_path / "back", without=elsewhere)
    assert left == sorted(["manifest.json", _hex(_MINE)])
