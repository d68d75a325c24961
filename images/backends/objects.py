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
from spotrun.images.backends.retry import ERRORS, tried
from spotrun.images.backends.trouble import Verdict, explain, judge
from spotrun.images.errors import StoreDenied, StoreFull, StoreUnavailable
from spotrun.images.patience import Patience

if TYPE_CHECKING:
    from obstore import PutMode, UpdateVersion

T = TypeVar("T")


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

        return self._tried(key, fetch, Verdict.MISSING)

    def read(self, key: str, offset: int, length: int) -> memoryview:
        """Fetch a range of an object."""

        def fetch() -> memoryview:
            return memoryview(obstore.get_range(self.engine, key, start=offset, length=length))

        found = self._tried(key, fetch, Verdict.MISSING, Verdict.TOO_SHORT)
        if len(found) < length:
            raise ObjectTooShort(key)
        return found

    def put(self, key: str, data: Data) -> None:
        """Send an object in one request."""
        self._send(key, data, "overwrite")

    def create(self, key: str, data: Data) -> str:
        """Send an object with `If-None-Match: *`."""
        try:
            return self._send(key, data, "create", Verdict.CONFLICT)
        except _ConditionFailed:
            return self._ours(key, data, ObjectExists)

    def replace(self, key: str, data: Data, tag: str) -> str:
        """Send an object with `If-Match`."""
        try:
            return self._send(key, data, _version(tag), Verdict.CONFLICT, Verdict.MISSING)
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
            self._tried("", lambda: obstore.delete(self.engine, names), Verdict.MISSING)
        except ObjectMissing:  # GCS and Azure say so, and may have left out others
            for name in names:
                self._delete(name)

    def free(self) -> int | None:
        """Say that there is no limit."""
        return None

    def _delete(self, key: str) -> None:
        try:
            self._tried(key, lambda: obstore.delete(self.engine, key), Verdict.MISSING)
        except ObjectMissing:
            return

    def _send(self, key: str, data: Data, mode: "PutMode", *expected: Verdict) -> str:
        def send() -> str:
            return _tag(obstore.put(self.engine, key, pieces(data), mode=mode, use_multipart=False))

        return self._tried(key, send, *expected)

    def _ours(self, key: str, data: Data, refusal: type[Exception]) -> str:
        """Return the tag if the object has our content: the acknowledgement got lost."""
        try:
            found, tag = self.get_tagged(key)
        except ObjectMissing:
            raise refusal(key) from None
        if found != joined(data):
            raise refusal(key) from None
        return tag

    def _tried(self, key: str, action: Callable[[], T], *expected: Verdict) -> T:
        """Do it; what is expected is told of the object, all else of the store."""
        try:
            return tried(action, self._patience, self._renew)
        except ERRORS as error:
            verdict = judge(error)
            if verdict in expected:
                raise _OF_THE_OBJECT[verdict](key) from error
            kind = _OF_THE_STORE.get(verdict, StoreUnavailable)
            raise kind(store=self, reason=explain(error)) from error


class _ConditionFailed(Exception):
    """The condition of a write did not hold, or no longer."""


_OF_THE_OBJECT: Final = {
    Verdict.MISSING: ObjectMissing,
    Verdict.CONFLICT: _ConditionFailed,
    Verdict.TOO_SHORT: ObjectTooShort,
}
_OF_THE_STORE: Final = {
    Verdict.DENIED: StoreDenied,
    Verdict.EXPIRED: StoreDenied,
    Verdict.FULL: StoreFull,
}


def made(name: str, make: Callable[[], T]) -> T:
    """Return obstore's store; StoreUnavailable: its settings make no sense."""
    try:
        return make()
    except BaseError as error:
        raise StoreUnavailable(store=name, reason=explain(error)) from error


def _tag(meta: Any) -> str:  # noqa: ANN401 # obstore's ObjectMeta or PutResult
    """Put into one string what obstore takes to know a version again."""
    named = {name: meta[name] for name in ("e_tag", "version") if meta[name] is not None}
    return msgspec.json.encode(named).decode()


def _version(tag: str) -> "UpdateVersion":
    version: UpdateVersion = msgspec.json.decode(tag)
    return version
