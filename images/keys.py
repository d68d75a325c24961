"""The keys of an encrypted store: each opens the one master key, which encrypts everything else.

So a key can be added, removed or replaced without touching the data.
"""

import secrets
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from spotrun.images.seal import KEY

_SALT: Final = 32
_NONCE: Final = 12
_COST, _BLOCK, _PARALLEL = 1 << 15, 8, 1
"""scrypt's N, r and p: 32 MiB and some 0.1 s a try."""
_MOST_COST: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """The master key, encrypted with what scrypt makes of a user's secret."""

    id: str
    created: str
    """UTC, ISO 8601, by the host that added it."""
    n: int
    r: int
    p: int
    salt: bytes
    master: bytes
    """Nonce, ciphertext and tag of AES-256-GCM; its associated data are the
    strings above and the store's id."""


def new_master() -> bytes:
    """Return a new master key."""
    return secrets.token_bytes(KEY)


def wrap(master: bytes, secret: bytes, *, store: str, created: str) -> WrappedKey:
    """Return the master key as one secret opens it."""
    key_id, salt, nonce = (secrets.token_hex(4), *map(secrets.token_bytes, (_SALT, _NONCE)))
    cipher = _cipher(secret, salt, _COST, _BLOCK, _PARALLEL)
    sealed = nonce + cipher.encrypt(nonce, master, _bound(store, key_id, created))
    return WrappedKey(key_id, created, _COST, _BLOCK, _PARALLEL, salt, sealed)


def unwrap(wrapped: WrappedKey, secret: bytes, *, store: str) -> bytes | None:
    """Return the master key; None: it is not this secret's."""
    if wrapped.n > _MOST_COST or wrapped.r > _BLOCK or wrapped.p > _PARALLEL:
        return None  # who can write to the store must not make us use up memory
    nonce, sealed = wrapped.master[:_NONCE], wrapped.master[_NONCE:]
    try:
        cipher = _cipher(secret, wrapped.salt, wrapped.n, wrapped.r, wrapped.p)
        return cipher.decrypt(nonce, sealed, _bound(store, wrapped.id, wrapped.created))
    except (InvalidTag, ValueError, OverflowError):  # numbers that scrypt cannot take, too
        return None


def _cipher(secret: bytes, salt: bytes, n: int, r: int, p: int) -> AESGCM:
    return AESGCM(Scrypt(salt=salt, length=KEY, n=n, r=r, p=p).derive(secret))


def _bound(store: str, key_id: str, created: str) -> bytes:
    return f"spotrun key {store} {key_id} {created}".encode()
