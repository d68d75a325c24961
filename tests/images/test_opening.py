"""A store opens for who has a key of it; its keys change without its data."""

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from spotrun.images import keys, opening
from spotrun.images.address import NO_KEY, Address
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.errors import (
    StoreForeign,
    StoreLocked,
    StoreMissing,
    StoreUnavailable,
    UsageError,
)
from spotrun.images.opening import (
    add_key,
    keys_of,
    make_in,
    open_in,
    open_store,
    remove_key,
    rotate_key,
)
from spotrun.images.store import Store
from tests.fakes.stores import objects, pushed, read, written

_SECRETS = [b"the first secret of a store", b"the second secret of a store", b"another one's key"]


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let keys cost next to nothing, and hide what the environment has."""
    monkeypatch.setattr(keys, "_COST", 2)
    monkeypatch.delenv("SPOTRUN_KEY", raising=False)
    opening._opened.cache_clear()  # noqa: SLF001 # what other tests have opened


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Give the files with the secrets."""
    for number, secret in enumerate(_SECRETS):
        (tmp_path / f"key-{number}").write_bytes(secret + b"\n")
    return [str(tmp_path / f"key-{number}") for number in range(3)]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Give the path of a store that is not there yet."""
    return str(tmp_path / "store")


def _filled(address: Address, folder: Path) -> dict[str, bytes]:
    """Make a store with a snapshot, and return the files of that."""
    pushed(open_store(address, make=True), written(folder / "in", {"log": b"it" * 1000}))
    return read(folder / "in")


def _anew(address: Address) -> Store:
    """Open a store as another process does."""
    opening._opened.cache_clear()  # noqa: SLF001 # it outlives what a test changes
    return open_store(address, make=False)


def _read(address: Address, folder: Path) -> dict[str, bytes]:
    store = _anew(address)
    store.fetch(store.find("train", None), folder)
    return read(folder)


def test_store_that_is_not_there_is_refused_or_made(url: str) -> None:
    """Nothing is written by who only looks."""
    with pytest.raises(StoreMissing, match=f"there is no store at {url}"):
        open_store(Address(url), make=False)
    assert not Path(url).exists()
    store = open_store(Address(url), make=True)
    assert objects(store).keys() == {"store.json"}
    assert _anew(Address(url)).seal.store == store.seal.store


def test_store_is_opened_once(url: str) -> None:
    """By all parts of a process, whether they would have made it or not."""
    store = open_store(Address(url), make=True)
    assert open_store(Address(url), make=False) is store
    assert open_store(Address(url), make=True) is store


def test_hosts_that_make_a_store_at_once_make_one() -> None:
    """Whoever is second uses the first one's."""
    backend, barrier = MemoryBackend(), threading.Barrier(4)

    def one(_: int) -> str:
        barrier.wait(10)
        make_in(backend, _SECRETS[0])
        return open_in(backend, _SECRETS[0]).seal.store

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(one, range(4)))) == 1


def test_identity_says_what_a_store_is(url: str, files: list[str]) -> None:
    """A stranger reads format, id and keys."""
    open_store(Address(url, files[0]), make=True)
    found = json.loads((Path(url) / "store.json").read_bytes())
    assert list(found) == ["id", "keys", "format"]
    assert (found["format"], len(found["id"]), len(found["keys"])) == (1, 32, 1)
    assert list(found["keys"][0]) == ["id", "created", "n", "r", "p", "salt", "master"]


def test_encrypted_store_opens_with_its_key_only(
    url: str, files: list[str], tmp_path: Path
) -> None:
    """From a file; without a key, or with another one, it is told why not."""
    content = _filled(Address(url, files[0]), tmp_path)
    assert _read(Address(url, files[0]), tmp_path / "out") == content
    with pytest.raises(StoreLocked, match="it is encrypted, and no key was given"):
        _anew(Address(url))
    with pytest.raises(StoreLocked, match="this key is none of its keys"):
        _anew(Address(url, files[1]))


def test_key_of_the_environment_is_used(
    url: str, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless a file is named; it may have any bytes."""
    content = _filled(Address(url, files[0]), tmp_path)
    monkeypatch.setenv("SPOTRUN_KEY", _SECRETS[0].decode())
    assert _read(Address(url), tmp_path / "out") == content
    with pytest.raises(StoreLocked):
        _anew(Address(url, files[1]))
    monkeypatch.setitem(os.environ, "SPOTRUN_KEY", os.fsdecode(b"\xff\xfe not any text \xff"))
    with pytest.raises(StoreLocked):
        _anew(Address(url))


def test_key_for_a_store_that_is_not_encrypted_is_refused(url: str, files: list[str]) -> None:
    """Its user believes that it is; somebody may have taken its keys away."""
    open_store(Address(url), make=True)
    with pytest.raises(UsageError, match="is not encrypted, and a key was given"):
        _anew(Address(url, files[0]))
    with pytest.raises(UsageError, match="is not encrypted, and a key was given"):
        add_key(Address(url, files[0]), _SECRETS[1])
    assert keys_of(Address(url)) == ()


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 15 + b"\n", b"x" * (65 << 10)], ids=len)
def test_key_file_that_is_too_short_or_long_is_refused(
    url: str, tmp_path: Path, content: bytes
) -> None:
    """A short secret can be guessed."""
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(UsageError, match=r"key file .*/key must have 16 to 65536 bytes"):
        open_store(Address(url, str(tmp_path / "key")), make=True)


def test_key_file_that_cannot_be_read_is_named(url: str, tmp_path: Path) -> None:
    """With the reason."""
    with pytest.raises(UsageError, match=r"key file .*/none: No such file or directory"):
        open_store(Address(url, str(tmp_path / "none")), make=True)


def test_short_key_of_the_environment_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one is none."""
    monkeypatch.setenv("SPOTRUN_KEY", "short")
    with pytest.raises(UsageError, match="SPOTRUN_KEY must have 16 to 65536 bytes"):
        open_store(Address(url), make=True)
    monkeypatch.setenv("SPOTRUN_KEY", "")
    open_store(Address(url), make=True)
    assert keys_of(Address(url)) == ()


def test_added_key_opens_what_was_there(url: str, files: list[str], tmp_path: Path) -> None:
    """So does the one that was there before; no data is touched."""
    content = _filled(Address(url, files[0]), tmp_path)
    before = objects(_anew(Address(url, files[0])))
    added = add_key(Address(url, files[0]), _SECRETS[1])
    assert [it.id for it in keys_of(Address(url))][1:] == [added]
    assert _read(Address(url, files[1]), tmp_path / "out1") == content
    assert _read(Address(url, files[0]), tmp_path / "out0") == content
    after = objects(_anew(Address(url, files[1])))
    assert {key for key in after if after[key] != before.get(key)} == {"store.json"}


def test_rotated_key_takes_the_place_of_the_old_one(
    url: str, files: list[str], tmp_path: Path
) -> None:
    """Other keys stay."""
    content = _filled(Address(url, files[0]), tmp_path)
    add_key(Address(url, files[0]), _SECRETS[1])
    rotated = rotate_key(Address(url, files[0]), _SECRETS[2])
    assert [it.id for it in keys_of(Address(url))][1:] == [rotated]
    assert _read(Address(url, files[2]), tmp_path / "out2") == content
    assert _read(Address(url, files[1]), tmp_path / "out1") == content
    with pytest.raises(StoreLocked):
        _anew(Address(url, files[0]))


def test_removed_key_opens_no_more(url: str, files: list[str]) -> None:
    """Whoever has any key of a store may remove each, but not the last."""
    open_store(Address(url, files[0]), make=True)
    first = keys_of(Address(url))[0].id
    second = add_key(Address(url, files[0]), _SECRETS[1])
    remove_key(Address(url, files[1]), first)
    with pytest.raises(StoreLocked):
        _anew(Address(url, files[0]))
    with pytest.raises(UsageError, match="the last key cannot be removed"):
        remove_key(Address(url, files[1]), second)
    with pytest.raises(UsageError, match=f"has no key '{first}'"):
        remove_key(Address(url, files[1]), first)
    _anew(Address(url, files[1]))


@pytest.mark.parametrize(
    "change",
    [
        lambda address: add_key(address, _SECRETS[2]),
        lambda address: rotate_key(address, _SECRETS[2]),
        lambda address: remove_key(address, "12345678"),
    ],
    ids=["add", "rotate", "remove"],
)
def test_keys_are_changed_by_who_has_one(
    url: str, files: list[str], change: Callable[[Address], object]
) -> None:
    """Of a store that is there."""
    with pytest.raises(StoreMissing):
        change(Address(url, files[0]))
    open_store(Address(url, files[0]), make=True)
    before = keys_of(Address(url))
    with pytest.raises(UsageError, match="name a key that opens the store"):
        change(Address(url))
    with pytest.raises(StoreLocked):
        change(Address(url, files[1]))
    assert keys_of(Address(url)) == before


class _Busy(MemoryBackend):
    """A store whose keys others change meanwhile."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        content, tag = super().get_tagged(key)
        if self.times:
            self.times -= 1
            super().put(key, content + b"\n")
        return content, tag


@pytest.mark.parametrize(("times", "done"), [(0, True), (9, True), (10, False)])
def test_changes_of_others_are_not_lost(
    monkeypatch: pytest.MonkeyPatch, files: list[str], times: int, *, done: bool
) -> None:
    """A change is tried again upon theirs, a few times."""
    backend = _Busy(times)
    monkeypatch.setattr(opening, "open_backend", lambda *_: backend)
    make_in(backend, _SECRETS[0])
    if done:
        add_key(Address("busy", files[0]), _SECRETS[1])
    else:
        with pytest.raises(StoreUnavailable, match="others change its keys all the time"):
            add_key(Address("busy", files[0]), _SECRETS[1])
    assert len(keys_of(Address("busy"))) == 1 + done


def test_hosts_that_add_keys_at_once_lose_none(url: str, files: list[str]) -> None:
    """Each finds the keys of the others."""
    open_store(Address(url, files[0]), make=True)
    with ThreadPoolExecutor(4) as pool:
        secrets = [f"secret number {number} of several".encode() for number in range(4)]
        added = list(pool.map(lambda secret: add_key(Address(url, files[0]), secret), secrets))
    assert {it.id for it in keys_of(Address(url))[1:]} == set(added)


def test_secret_that_opens_a_store_is_not_added_again(url: str, files: list[str]) -> None:
    """Removing or replacing one of its keys would leave it valid, and look as if it were not."""
    open_store(Address(url, files[0]), make=True)
    add_key(Address(url, files[0]), _SECRETS[1])
    for change in (add_key, rotate_key):
        with pytest.raises(UsageError, match=r"opens store .* already"):
            change(Address(url, files[0]), _SECRETS[1])
    assert len(keys_of(Address(url))) == 2


def _changed(backend: MemoryBackend, **fields: Any) -> MemoryBackend:  # noqa: ANN401 # any JSON
    found = {**json.loads(backend.get("store.json")), **fields}
    backend.put("store.json", json.dumps(found).encode())
    return backend


def test_later_format_is_refused_with_both_numbers() -> None:
    """Even if nothing else of it can be read."""
    backend = MemoryBackend()
    backend.put("store.json", b'{"format": 2}')
    with pytest.raises(StoreForeign, match="it has format 2, this spotrun reads 1"):
        open_in(backend, None)


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"{}", b'{"format": "1"}', b'{"format": 1}', b"\xff", b'{"\xff": 1}'],
)
def test_identity_that_makes_no_sense_is_told(raw: bytes) -> None:
    """It may be anything that has this name."""
    backend = MemoryBackend()
    backend.put("store.json", raw)
    with pytest.raises(StoreForeign, match=r"store\.json makes no sense"):
        open_in(backend, None)


def test_field_of_a_later_spotrun_is_let_through() -> None:
    """A field that is new in the same format hides nothing of the others."""
    backend = MemoryBackend()
    make_in(backend, None)
    before = open_in(backend, None).seal.store
    assert open_in(_changed(backend, later="x"), None).seal.store == before


def test_keys_that_were_taken_away_do_not_make_a_plain_store() -> None:
    """Who gives a key writes nothing that others can read."""
    backend = MemoryBackend()
    make_in(backend, _SECRETS[0])
    with pytest.raises(UsageError, match="is not encrypted, and a key was given"):
        open_in(_changed(backend, keys=[]), _SECRETS[0])


def test_identity_that_is_lost_is_not_made_anew(url: str, tmp_path: Path) -> None:
    """The snapshots that are there could not be read any more, and nobody would know why."""
    _filled(Address(url), tmp_path)
    (Path(url) / "store.json").unlink()
    opening._opened.cache_clear()  # noqa: SLF001
    with pytest.raises(StoreForeign, match=r"it has snapshots, but no store\.json"):
        open_store(Address(url), make=True)


@pytest.mark.parametrize(
    ("url", "remote"),
    [("/var/store", False), ("file:///var/store", False), ("s3://b/p", True), ("gs://b", True)],
)
def test_place_that_other_hosts_reach_is_told(url: str, *, remote: bool) -> None:
    """A path may be one too, but need not: the other host is asked."""
    assert Address(url).remote is remote


def test_store_that_has_no_key_ever_is_opened_beside_a_key_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host's own store is one, whatever its user has for others."""
    monkeypatch.setenv(opening.SECRET_VARIABLE, "a secret of more than sixteen bytes")
    place = str(tmp_path / "store")
    open_store(Address(place, NO_KEY), make=True)
    with pytest.raises(UsageError, match="is not encrypted"):
        open_store(Address(place), make=True)
