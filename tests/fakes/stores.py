"""Stores for tests: in memory, filled, and with backends that fail."""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spotrun.images.backends.base import Backend, Data, joined
from spotrun.images.backends.memory import MemoryBackend
from spotrun.images.manifest import Manifest
from spotrun.images.pages import PAGE
from spotrun.images.seal import KEY, Keyed, Plain
from spotrun.images.store import Store, file_sizes
from tests.fakes.snapshots import manifest

STORE = "0123456789abcdef" * 2
MASTER = bytes(range(KEY))


class FussyBackend(MemoryBackend):
    """A backend that asks before each `put` whether it may."""

    def __init__(self, ask: Callable[[str], None]) -> None:
        """Let `ask` raise what the put is to fail with."""
        super().__init__()
        self.ask = ask

    def put(self, key: str, data: Data) -> None:
        """Ask, then keep."""
        self.ask(key)
        super().put(key, data)


def plain(backend: Backend | None = None) -> Store:
    """Return a store in memory that is not encrypted."""
    return Store(backend or MemoryBackend(), Plain(STORE))


def keyed(backend: Backend | None = None, master: bytes = MASTER) -> Store:
    """Return an encrypted one."""
    return Store(backend or MemoryBackend(), Keyed(STORE, master))


def objects(store: Store, prefix: str = "") -> dict[str, bytes]:
    """Return what a store's backend has."""
    return {entry.key: store.backend.get(entry.key) for entry in store.backend.list(prefix)}


def copied(contents: Mapping[str, Data]) -> MemoryBackend:
    """Return a backend that has these objects."""
    backend = MemoryBackend()
    for key, data in contents.items():
        backend.put(key, joined(data))
    return backend


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Make files below a folder, and return it."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def read(folder: Path) -> dict[str, bytes]:
    """Return the content of all files below a folder."""
    return {name: (folder / name).read_bytes() for name in file_sizes(folder)}


def pushed(
    store: Store,
    folder: Path,
    *,
    threads: int | None = None,
    **changes: Any,  # noqa: ANN401 # any field
) -> tuple[Manifest, int]:
    """Store and commit the files below a folder; return the manifest and the bytes sent."""
    described = manifest(**changes)
    push = store.begin(described.snapshot, described.job, "host")
    files = file_sizes(folder)
    content = push.store(folder, files, threads=threads, tell=None)
    described = replace(described, files=files, content=content)
    push.publish(described)
    push.end()
    return described, push.moved


def page_files(folder: Path, number: int, runs: Iterable[tuple[int, bytes]]) -> None:
    """Write CRIU's page map and page file, given addresses and what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    messages, content = [_message((1, number))], b""
    for address, data in runs:
        messages.append(_message((1, address), (2, len(data) // PAGE), (4, 4)))
        content += data
    head = struct.pack("<II", 0x54564319, 0x56084025)
    (folder / f"pagemap-{number}.img").write_bytes(head + b"".join(messages))
    (folder / f"pages-{number}.img").write_bytes(content)


def _message(*fields: tuple[int, int]) -> bytes:
    body = b"".join(_varint(number << 3) + _varint(value) for number, value in fields)
    return struct.pack("<I", len(body)) + body


def _varint(value: int) -> bytes:
    coded = bytearray()
    while value >> 7:
        coded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(coded) + bytes([value])
