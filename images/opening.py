"""How a store is named, made, opened and unlocked.

`store.json` says what a store is: its format, its id and, if it is encrypted, its keys. It is
changed on condition only, so that no two hosts overwrite each other's change.
"""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from spotrun.images import keys
from spotrun.images.address import NO_KEY, Address
from spotrun.images.backends import open_backend
from spotrun.images.backends.base import Backend, ObjectChanged, ObjectExists, ObjectMissing
from spotrun.images.errors import (
    StoreForeign,
    StoreLocked,
    StoreMissing,
    StoreUnavailable,
    UsageError,
)
from spotrun.images.keys import WrappedKey
from spotrun.images.patience import USUAL, Patience
from spotrun.images.seal import Keyed, Plain, Seal
from spotrun.images.store import IDENTITY, SNAPSHOTS, Store

FORMAT: Final = 1
SECRET_VARIABLE: Final = "SPOTRUN_KEY"  # noqa: S105 # the name of a variable
_SHORTEST: Final = 16
_LONGEST: Final = 64 << 10
_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class Identity:
    """The content of `store.json`."""

    id: str
    keys: tuple[WrappedKey, ...]
    """Empty: the store is not encrypted."""
    format: int = FORMAT


def open_store(address: Address, *, make: bool, patience: Patience = USUAL) -> Store:
    """Return a store, which is opened once a process; one that is not there is made, or refused."""
    secret = _secret(address)
    try:
        return _opened(address, secret, patience)
    except StoreMissing:
        if not make:
            raise
    make_in(open_backend(address.url, patience), secret)
    return _opened(address, secret, patience)


def open_in(backend: Backend, secret: bytes | None) -> Store:
    """Return the store that a backend has."""
    return Store(backend, _seal(backend, _identity(backend), secret))


def make_in(backend: Backend, secret: bytes | None) -> None:
    """Make a store, encrypted if there is a secret, unless another host is faster."""
    with suppress(ObjectExists):
        backend.create(IDENTITY, _encode(_fresh(secret)))


def secret_of(key_file: str) -> bytes:
    """Read a secret from a file, or raise UsageError."""
    try:
        with Path(key_file).open("rb") as file:
            found = file.read(_LONGEST + 1).rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(message=f"key file {key_file}: {error.strerror}") from error
    return _checked(found, f"key file {key_file}")


def keys_of(address: Address) -> tuple[WrappedKey, ...]:
    """Return the keys of a store, none if it is not encrypted."""
    return _identity(open_backend(address.url)).keys


def add_key(address: Address, new: bytes) -> str:
    """Let another secret open a store; return the new key's id."""
    return _with_master(address, lambda _opener, kept, fresh: (*kept, fresh), new)


def rotate_key(address: Address, new: bytes) -> str:
    """Put another secret in the place of the one that opens the store; return its key's id."""

    def change(
        opener: str, kept: tuple[WrappedKey, ...], fresh: WrappedKey
    ) -> tuple[WrappedKey, ...]:
        return (*(it for it in kept if it.id != opener), fresh)

    return _with_master(address, change, new)


def remove_key(address: Address, key_id: str) -> None:
    """Let a secret open the store no longer; the last one stays."""
    backend, secret = open_backend(address.url), _needed(address)

    def change(identity: Identity) -> Identity:
        _master(backend, identity, secret)
        kept = tuple(it for it in identity.keys if it.id != key_id)
        if len(kept) == len(identity.keys):
            raise UsageError(message=f"store {backend} has no key {key_id!r}")
        if not kept:
            raise UsageError(message="the last key cannot be removed: nothing could be read again")
        return replace(identity, keys=kept)

    _change(backend, change)


@lru_cache(maxsize=16)
def _opened(address: Address, secret: bytes | None, patience: Patience) -> Store:
    return open_in(open_backend(address.url, patience), secret)


def _seal(backend: Backend, identity: Identity, secret: bytes | None) -> Seal:
    if secret is not None:
        return Keyed(identity.id, _master(backend, identity, secret)[0])
    if identity.keys:
        raise StoreLocked(store=backend, reason="it is encrypted, and no key was given")
    return Plain(identity.id)


def _identity(backend: Backend) -> Identity:
    try:
        return _decode(backend, backend.get(IDENTITY))
    except ObjectMissing:
        if next(backend.list(SNAPSHOTS), None):
            reason = f"it has snapshots, but no {IDENTITY}, without which none can be read"
            raise StoreForeign(store=backend, reason=reason) from None
        raise StoreMissing(store=backend) from None


def _fresh(secret: bytes | None) -> Identity:
    store = secrets.token_hex(16)
    if secret is None:
        return Identity(store, ())
    return Identity(store, (keys.wrap(keys.new_master(), secret, store=store, created=_now()),))


def _master(backend: Backend, identity: Identity, secret: bytes) -> tuple[bytes, str]:
    """Return the master key, and the id of the key that opened it."""
    if not identity.keys:
        raise UsageError(message=f"store {backend} is not encrypted, and a key was given for it")
    for wrapped in identity.keys:
        if master := keys.unwrap(wrapped, secret, store=identity.id):
            return master, wrapped.id
    raise StoreLocked(store=backend, reason="this key is none of its keys")


def _with_master(
    address: Address,
    change: Callable[[str, tuple[WrappedKey, ...], WrappedKey], tuple[WrappedKey, ...]],
    new: bytes,
) -> str:
    backend, secret = open_backend(address.url), _needed(address)
    added = ""

    def changed(identity: Identity) -> Identity:
        nonlocal added
        master, opener = _master(backend, identity, secret)
        if any(keys.unwrap(it, new, store=identity.id) for it in identity.keys):
            raise UsageError(message=f"this secret opens store {backend} already")
        fresh = keys.wrap(master, new, store=identity.id, created=_now())
        added = fresh.id
        return replace(identity, keys=change(opener, identity.keys, fresh))

    _change(backend, changed)
    return added


def _change(backend: Backend, change: Callable[[Identity], Identity]) -> None:
    for _ in range(_TRIES):
        try:
            raw, tag = backend.get_tagged(IDENTITY)
            backend.replace(IDENTITY, _encode(change(_decode(backend, raw))), tag)
        except ObjectMissing:
            raise StoreMissing(store=backend) from None
        except ObjectChanged:
            continue
        _opened.cache_clear()
        return
    raise StoreUnavailable(store=backend, reason="others change its keys all the time")


def _needed(address: Address) -> bytes:
    secret = _secret(address)
    if secret is None:
        raise UsageError(message="name a key that opens the store, with --key-file or SPOTRUN_KEY")
    return secret


def _secret(address: Address) -> bytes | None:
    if address.key_file == NO_KEY:
        return None
    if address.key_file is not None:
        return secret_of(address.key_file)
    if given := os.environ.get(SECRET_VARIABLE):
        return _checked(os.fsencode(given), SECRET_VARIABLE)
    return None


def _checked(secret: bytes, what: str) -> bytes:
    if not _SHORTEST <= len(secret) <= _LONGEST:
        raise UsageError(message=f"{what} must have {_SHORTEST} to {_LONGEST} bytes")
    return secret


def _encode(identity: Identity) -> bytes:
    return msgspec.json.format(msgspec.json.encode(identity), indent=1) + b"\n"


def _decode(backend: Backend, raw: bytes) -> Identity:
    try:
        version = msgspec.json.decode(raw, type=_Versioned).format
        if version == FORMAT:
            return msgspec.json.decode(raw, type=Identity)
    except msgspec.MsgspecError as error:
        raise StoreForeign(store=backend, reason=f"{IDENTITY} makes no sense: {error}") from error
    raise StoreForeign(
        store=backend, reason=f"it has format {version}, this spotrun reads {FORMAT}"
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class _Versioned:
    format: int
