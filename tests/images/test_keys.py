"""A wrapped master key opens with its secret, in its store, and as it was written."""

from dataclasses import replace
from typing import Any

import pytest

from spotrun.images import keys
from spotrun.images.keys import WrappedKey, new_master, unwrap, wrap
from spotrun.images.seal import KEY

_SECRET = b"what only its user knows"
_MASTER = bytes(range(KEY))


@pytest.fixture
def wrapped(monkeypatch: pytest.MonkeyPatch) -> WrappedKey:
    """Give the master key, wrapped at little cost."""
    monkeypatch.setattr(keys, "_COST", 2)
    return wrap(_MASTER, _SECRET, store="store", created="2026-12-01T10:00:00+00:00")


def test_secret_opens_what_it_wrapped() -> None:
    """At the cost that is paid in earnest."""
    wrapped = wrap(_MASTER, _SECRET, store="store", created="now")
    assert (wrapped.n, wrapped.r, wrapped.p) == (1 << 15, 8, 1)
    assert unwrap(wrapped, _SECRET, store="store") == _MASTER


@pytest.mark.parametrize("secret", [b"", b"another", _SECRET + b"x", _SECRET[:-1]])
def test_other_secret_opens_nothing(wrapped: WrappedKey, secret: bytes) -> None:
    """However near it is."""
    assert unwrap(wrapped, secret, store="store") is None


def test_key_of_another_store_opens_nothing(wrapped: WrappedKey) -> None:
    """So that nobody's `store.json` can be put in the place of another one with the same secret."""
    assert unwrap(wrapped, _SECRET, store="another") is None


@pytest.mark.parametrize(
    "change",
    [
        {"id": "00000000"},
        {"created": "2026-12-01T10:00:01+00:00"},
        {"salt": bytes(32)},
        {"salt": b""},
        {"master": b""},
        {"master": bytes(12)},
        {"master": bytes(60)},
        {"n": 4},
        {"n": 1},
        {"n": 0},
        {"n": 3},
        {"n": -2},
        {"n": 1 << 21},
        {"n": 10**40},
        {"r": 4},
        {"r": 0},
        {"r": -1},
        {"r": 1 << 30},
        {"p": 0},
        {"p": -1},
        {"p": 2},
    ],
    ids=str,
)
def test_key_that_was_changed_opens_nothing(wrapped: WrappedKey, change: dict[str, Any]) -> None:
    """Nor does it cost memory or time that nobody has, or fail otherwise."""
    assert unwrap(wrapped, _SECRET, store="store") == _MASTER
    assert unwrap(replace(wrapped, **change), _SECRET, store="store") is None


def test_each_wrapping_is_another(wrapped: WrappedKey) -> None:
    """Two keys with the same secret share nothing that can be seen."""
    again = wrap(_MASTER, _SECRET, store="store", created=wrapped.created)
    assert (again.id, again.salt, again.master) != (wrapped.id, wrapped.salt, wrapped.master)
    assert unwrap(again, _SECRET, store="store") == _MASTER
    assert len(wrapped.salt) == 32


def test_master_keys_are_random() -> None:
    """All of their bytes."""
    assert len(new_master()) == KEY
    assert new_master() != new_master()
