"""Objects in the memory of this process, for tests."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from threading import Lock

from spotrun.images.backends.base import (
    Data,
    Entry,
    ObjectChanged,
    ObjectExists,
    ObjectMissing,
    ObjectTooShort,
    content_tag,
    joined,
)


class MemoryBackend:
    """Keeps objects as long as it lives (base.Backend)."""

    def __init__(self) -> None:
        """Keep none yet."""
        self._objects: dict[str, tuple[bytes, datetime]] = {}
        self._lock = Lock()

    def __str__(self) -> str:
        """Return what a user calls it."""
        return "memory"

    def get(self, key: str) -> bytes:
        """Return an object."""
        try:
            return self._objects[key][0]
        except KeyError:
            raise ObjectMissing(key) from None

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        """Return an object and the hash of its content."""
        data = self.get(key)
        return data, content_tag(data)

    def read(self, key: str, offset: int, length: int) -> bytes:
        """Return a range of an object."""
        data = self.get(key)[offset : offset + length]
        if len(data) < length:
            raise ObjectTooShort(key)
        return data

    def put(self, key: str, data: Data) -> None:
        """Keep a copy of the content."""
        with self._lock:
            self._keep(key, data)

    def create(self, key: str, data: Data) -> str:
        """Keep it unless there is another one."""
        with self._lock:
            found = self._objects.get(key)
            if found is not None and found[0] != joined(data):
                raise ObjectExists(key)
            return self._keep(key, data)

    def replace(self, key: str, data: Data, tag: str) -> str:
        """Keep it if the present one has that hash or is the same."""
        with self._lock:
            found = self._objects.get(key)
            if found is None or (content_tag(found[0]) != tag and found[0] != joined(data)):
                raise ObjectChanged(key)
            return self._keep(key, data)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yield what is kept at this instant."""
        with self._lock:
            found = [Entry(key, len(data), time) for key, (data, time) in self._objects.items()]
        yield from sorted(entry for entry in found if entry.key.startswith(prefix))

    def delete(self, keys: Iterable[str]) -> None:
        """Forget objects."""
        with self._lock:
            for key in keys:
                self._objects.pop(key, None)

    def free(self) -> int | None:
        """Say that there is no limit."""
        return None

    def _keep(self, key: str, data: Data) -> str:
        content = bytes(joined(data))
        self._objects[key] = content, datetime.now(UTC)
        return content_tag(content)
