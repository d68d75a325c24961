"""Objects in an object store: S3, Google Cloud Storage, Azure Blob Storage.

One engine, obstore, speaks to all of them. An object is always sent in one request, so nothing
unfinished can be left in a bucket.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import obstore
from obstore.exceptions import BaseError

from spotrun.images.backends.base import (
    Data,
    Entry,
    ObjectChanged,
    ObjectExists,
    ObjectMissing,
    ObjectTooShort,
    joined,
    pieces,
)
from spotrun.images.backends.retry import ERRORS, Patience, tried
from spotrun.images.backends.trouble import Verdict, explain, judge
from spotrun.images.errors import StoreDenied, StoreFull, StoreUnavailable

if TYPE_CHECKING:
    from obstore import PutMode, UpdateVersion

T = TypeVar("T")
_UNAVAILABLE: Final = {
    Verdict.DENIED: StoreDenied,
    Verdict.EXPIRED: StoreDenied,
    Verdict.FULL: StoreFull,
}


class ObjectBackend:
    """Keeps objects in a bucket, below a prefix (base.Backend)."""

    def __init__(
        self,
        store: obstore.store.ObjectStore,
        name: str,
        *,
        patience: Patience,
        renew: Callable[[], None] | None = None,
    ) -> None:
        """Use obstore's `store`, which must not retry; `renew` reads its credentials anew."""
        self.engine = store
        self._name = name
        self._patience = patience
        self._renew = renew

    def __str__(self) -> str:
        """Return what a user calls it."""
        return self._name

    def get(self, key: str) -> bytes:
        """Fetch an object."""
        return self.get_tagged(key)[0]

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        """Fetch an object with what identifies its version."""

        def fetch() -> tuple[bytes, str]:
            found = obstore.get(self.engine, key)
            return bytes(found.bytes()), _tag(found.meta)

        return self._tried(key, fetch)

    def read(self, key: str, offset: int, length: int) -> bytes:
        """Fetch a range of an object."""

        def fetch() -> bytes:
            return bytes(obstore.get_range(self.engine, key, start=offset, length=length))

        found = self._tried(key, fetch)
        if len(found) < length:
            raise ObjectTooShort(key)
        return found

    def put(self, key: str, data: Data) -> None:
        """Send an object in one request."""
        self._send(key, data, "overwrite")

    def create(self, key: str, data: Data) -> str:
        """Send an object with `If-None-Match: *`."""
        try:
            return self._send(key, data, "create")
        except _ConditionFailed:
            return self._ours(key, data, ObjectExists)

    def replace(self, key: str, data: Data, tag: str) -> str:
        """Send an object with `If-Match`."""
        try:
            return self._send(key, data, _version(tag))
        except (_ConditionFailed, ObjectMissing):
            return self._ours(key, data, ObjectChanged)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Fetch all pages and sort them: not every server sorts as S3 does."""

        def fetch() -> Iterator[Entry]:
            pages = obstore.list(self.engine, prefix)
            found = [
                Entry(it["path"], it["size"], it["last_modified"]) for page in pages for it in page
            ]
            return iter(sorted(found))

        return self._tried(prefix, fetch)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete in batches where the store can."""
        names = list(keys)
        try:
            self._tried("", lambda: obstore.delete(self.engine, names))
        except ObjectMissing:  # GCS and Azure say so, and may have left out others
            for name in names:
                self._delete(name)

    def _delete(self, key: str) -> None:
        try:
            self._tried(key, lambda: obstore.delete(self.engine, key))
        except ObjectMissing:
            return

    def _send(
        self,
        key: str,
        data: Data,
        mode: "PutMode",
    ) -> str:
        def send() -> str:
            return _tag(obstore.put(self.engine, key, pieces(data), mode=mode, use_multipart=False))

        return self._tried(key, send)

    def _ours(self, key: str, data: Data, refusal: type[Exception]) -> str:
        """Return the tag if the object has our content: the acknowledgement got lost."""
        try:
            found, tag = self.get_tagged(key)
        except ObjectMissing:
            raise refusal(key) from None
        if found != joined(data):
            raise refusal(key) from None
        return tag

    def _tried(self, key: str, action: Callable[[], T]) -> T:
        """Do it, and tell in the contract's words what is wrong with that object."""
        try:
            return tried(action, self._patience, self._renew)
        except ERRORS as error:
            raise self._told(key, error) from error

    def _told(self, key: str, error: Exception) -> Exception:
        match judge(error):
            case Verdict.MISSING:
                return ObjectMissing(key)
            case Verdict.CONFLICT:
                return _ConditionFailed(key)
            case Verdict.TOO_SHORT:
                return ObjectTooShort(key)
            case verdict:
                kind = _UNAVAILABLE.get(verdict, StoreUnavailable)
                return kind(store=self, reason=explain(error))


def made(name: str, make: Callable[[], T]) -> T:
    """Return obstore's store; StoreUnavailable: its settings make no sense."""
    try:
        return make()
    except BaseError as error:
        raise StoreUnavailable(store=name, reason=explain(error)) from error


class _ConditionFailed(Exception):
    """The condition of a write did not hold, or no longer."""


def _tag(meta: Any) -> str:  # noqa: ANN401 # obstore's ObjectMeta or PutResult
    """Put into one string what obstore takes to know a version again."""
    named = {name: meta[name] for name in ("e_tag", "version") if meta[name] is not None}
    return msgspec.json.encode(named).decode()


def _version(tag: str) -> "UpdateVersion":
    version: UpdateVersion = msgspec.json.decode(tag)
    return version
