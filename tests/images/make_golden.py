"""Make the golden stores: `python -m tests.images.make_golden`.

Those of a format that was released are never made again: that every later version reads them is
what they are for. The files in them are the same each time; salts, ids and times are not.
"""

import json
import shutil
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from spotrun.images import ledger
from spotrun.images.backends.directory import DirectoryBackend
from spotrun.images.ledger import Event
from spotrun.images.opening import make_in, open_in
from spotrun.images.pack import CHUNK_BYTES
from spotrun.images.pages import PAGE
from spotrun.images.store import Store, StoredImage, file_sizes
from tests.fakes.snapshots import IMAGE
from tests.fakes.stores import page_files, pushed, written

GOLDEN: Final = Path(__file__).parent / "golden"
NAMES: Final = ("store-1", "store-1-encrypted")
SECRET: Final = b"the key of a golden store"
FIRST, SECOND = "20261201T100000Z-00000a", "20261201T110000Z-00000b"


def _first(folder: Path) -> None:
    """Write files of all kinds: noise that does not compress, repeats, zeros, nothing."""
    noise = Random(1).randbytes(20_000)
    heap = Random(2).randbytes(3 * PAGE)
    page_files(folder / "criu", 1, [(0x400000, heap), (0x40E000, bytes(20 * PAGE) + heap)])
    written(
        folder,
        {
            "trees/0.tar": noise + bytes(2 * CHUNK_BYTES) + noise,
            "trees/1.tar": noise,
            "work/empty": b"",
            "log": b"".join(b"step %d\n" % step for step in range(300)),
        },
    )


def _second(folder: Path) -> None:
    """Change them; what is new has more than one frame, and compresses well."""
    _first(folder)
    heap = Random(2).randbytes(3 * PAGE)
    page_files(folder / "criu", 1, [(0x3FF000, b"p" * PAGE), (0x400000, heap)])
    chunks = (str(number).encode().ljust(CHUNK_BYTES, b".") for number in range(17))
    written(folder, {"trees/2.tar": b"".join(chunks), "log": b"ended\n"})


def _image(store: Store, folder: Path) -> None:
    push = store.begin("image", "", "host-a")
    files = file_sizes(folder)
    content = push.store(folder, files, threads=1, tell=None)
    store.put_image(StoredImage(IMAGE, files, content))
    push.end()


def _fill(store: Store) -> dict[str, dict[str, str]]:
    """Return the SHA-256 of all files, by snapshot or image."""
    with TemporaryDirectory() as made:
        folders = {name: Path(made, name) for name in (FIRST, SECOND, IMAGE.id)}
        _first(folders[FIRST])
        _second(folders[SECOND])
        written(folders[IMAGE.id], {"manifest.json": b"{}", "0" * 64: Random(3).randbytes(9000)})
        _image(store, folders[IMAGE.id])
        pushed(store, folders[FIRST], threads=1, snapshot=FIRST)
        pushed(store, folders[SECOND], threads=1, snapshot=SECOND, parent=FIRST, epoch=1)
        return {name: digests(folder) for name, folder in folders.items()}


def _unfinished(store: Store) -> None:
    """Leave a push that did not get to its end."""
    with TemporaryDirectory() as made:
        folder = written(Path(made), {"log": Random(4).randbytes(5000)})
        push = store.begin("unfinished", "train", "host-a")
        push.store(folder, file_sizes(folder), threads=1, tell=None)


def _history(store: Store) -> None:
    """Leave an event."""
    event = Event(
        at="2026-12-01T10:00:07.250+00:00",
        host="host-a",
        epoch=1,
        kind="snapshot",
        snapshot=FIRST,
        seconds=2.5,
        frozen_seconds=0.5,
        bytes=4711,
    )
    ledger.record(store, "train", event)


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below a folder."""
    names = sorted(file_sizes(folder))
    return {name: sha256((folder / name).read_bytes()).hexdigest() for name in names}


def _main(secrets: Mapping[str, bytes | None]) -> None:
    for name, secret in secrets.items():
        place = GOLDEN / name
        shutil.rmtree(place, ignore_errors=True)
        backend = DirectoryBackend(place)
        make_in(backend, secret)
        expected = _fill(open_in(backend, secret))
        _unfinished(open_in(backend, secret))
        _history(open_in(backend, secret))
        shutil.rmtree(place / "~new")
        (place / "~lock").unlink()
        (GOLDEN / "store-1-files.json").write_text(json.dumps(expected, indent=1) + "\n")
    (GOLDEN / "store-1.key").write_bytes(SECRET + b"\n")


if __name__ == "__main__":
    _main(dict(zip(NAMES, (None, SECRET), strict=True)))
