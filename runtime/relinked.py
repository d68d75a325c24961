"""What CRIU links for the time of a dump only, in trees that spotrun copies itself.

Podman's /dev/shm is such a tree. A POSIX semaphore that keeps its name lies there under one that
is gone, too (sem_open(3) makes the file under another name).
"""

import os
import tarfile
from pathlib import Path

from spotrun.images import remaps
from spotrun.images.errors import NotCapturable, OciError
from spotrun.images.manifest import Tree
from spotrun.runtime import procfs
from spotrun.runtime.captured import IMAGES, CaptureState


def add(state: CaptureState, folder: Path, tree: Tree) -> None:
    """Add CRIU's names to the archive of a mount, both being in the staged folder.

    NotCapturable: a file has lost its name there, and has another one only where none is copied.
    """
    at, place = tree.destination, Path(f"/proc/{state.pid}/root{tree.destination}")
    try:
        links = remaps.links(folder / IMAGES)
    except (ValueError, LookupError) as error:
        raise OciError(
            action="dump", reason=f"its list of files makes no sense: {error}"
        ) from error
    lost = {name: it for name, it in links.items() if name.startswith(f"{at}/")}
    if not lost:
        return
    files = {name: _file(it) for pid in state.pids for name, it in procfs.lost_files(pid)}
    kept = {_file(it.lstat()): it for it in place.rglob("*")}
    with tarfile.open(folder / tree.archive, "a") as tar:
        for name, link in lost.items():
            other = kept.get(files[name]) if name in files else None
            if other is None:
                reason = f"{name} is in use, was removed, and has other names elsewhere"
                raise NotCapturable(job=state.job, reason=reason)
            member = tarfile.TarInfo(f"./{Path(link).relative_to(at)}")
            member.type = tarfile.LNKTYPE
            member.linkname = f"./{other.relative_to(place)}"
            tar.addfile(member)


def _file(found: os.stat_result) -> tuple[int, int]:
    """Return what tells a file from all others: another mount may lie within."""
    return found.st_dev, found.st_ino
