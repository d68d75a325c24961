"""The disk of the bench's host: a fresh ext4 with a journal, as most machines have.

One without, as some virtual machines have, searches each group of inodes for those that were
deleted a moment ago (`recently_deleted` in Linux's ext4): whoever makes files then, as all that
restore a container do, is measured by that alone.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.lab.cache import CACHE
from tests.lab.shell import call

_GIB: Final = 24
_WHOLE: Final = "lazy_itable_init=0,lazy_journal_init=0"
"""Nothing is left for the kernel to make while something is measured."""


@contextmanager
def journaled() -> Iterator[Path]:
    """Yield a folder on such a disk."""
    with ExitStack() as ending:
        folder = Path(ending.enter_context(TemporaryDirectory(dir=CACHE)))
        image, place = folder / "disk", folder / "mounted"
        with image.open("wb") as file:
            file.truncate(_GIB << 30)
        call("mkfs.ext4", "-q", "-E", _WHOLE, image)
        shown = call("losetup", "--find", "--show", "--direct-io=on", image).stdout
        device = shown.strip()
        ending.callback(call, "losetup", "--detach", device)
        place.mkdir()
        call("mount", device, place)
        ending.callback(call, "umount", place)
        yield place
