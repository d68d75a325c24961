"""Test images, made on this machine: no registry has them.

They lie in one read-only store that hosts share, and as archives for hosts that are to be
without them.
"""

import inspect
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from tests.lab import apt
from tests.lab.cache import built
from tests.lab.root import debootstrap, pip, root
from tests.lab.shell import call

Image = Literal["busybox", "python", "torch"]
TORCH = "torch==2.13.0"
_NUMPY = "numpy==2.2.6"
_PYTHON = "3.11"
_ENV = ("PYTHONPATH=/opt/lib", "PYTHONUNBUFFERED=1")
_RECIPE = (TORCH, _NUMPY, _PYTHON)


def name(image: Image) -> str:
    """Return the name under which engines know it."""
    return f"localhost/lab/{image}:1"


def archive(image: Image) -> Path:
    """Return the tar archive of an image's files, built now if it never was."""
    recipe = inspect.getsource(_BUILDERS[image]) + inspect.getsource(_debian) + repr(_RECIPE)
    return built(f"image-{image}", recipe, _BUILDERS[image]) / "root.tar"


def store(images: tuple[Image, ...]) -> Path:
    """Return a store of these images."""
    archives = {image: archive(image) for image in images}

    def build(folder: Path) -> None:
        for image, tar in archives.items():
            podman = ["podman", "--root=/var/lib/lab-images", "import", "--quiet"]
            podman += [f"--change=ENV {variable}" for variable in _ENV]
            _in_a_host(folder, tar, [*podman, f"/mnt/machine/{tar.name}", name(image)])

    recipe = repr((_ENV, sorted((image, str(tar)) for image, tar in archives.items())))
    return built(f"images-{'-'.join(sorted(images))}", recipe, build)


def _in_a_host(folder: Path, tar: Path, argv: list[str]) -> None:
    """Run a command in a host that may write to the store."""
    from tests.lab.host import Host, Place

    (folder / ".building").touch()
    disk = folder.parent / "disk"
    place = Place("builder", root(), disk, tar.parent, folder, "v2")
    host = Host(place, "")
    try:
        host.power_on()
        host.run(argv, timeout=600)
    finally:
        host.power_off()
        shutil.rmtree(disk)
        (folder / ".building").unlink()


def _busybox(folder: Path) -> None:
    applets = (
        "sh ls cat echo sleep date rm mv cp ln mkdir mknod chmod chown touch grep nc httpd ps"
        " stat truncate seq od md5sum sha256sum find du df kill sync dd env id hostname tail"
        " readlink"
    )
    files = folder / "files"
    for sub in ("bin", "etc", "tmp", "data", "proc", "sys", "dev"):
        (files / sub).mkdir(parents=True)
    shutil.copy2(root() / "usr/bin/busybox", files / "bin/busybox")
    for applet in applets.split():
        (files / "bin" / applet).symlink_to("busybox")
    (files / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
    (files / "etc/group").write_text("root:x:0:\n")
    for number in range(4):
        (files / f"data/{number}").write_text(f"from the image: {number}\n")
    _pack(folder, files)


def _python(folder: Path) -> None:
    _debian(folder, _NUMPY)


def _torch(folder: Path) -> None:
    _debian(folder, _NUMPY, TORCH)


def _debian(folder: Path, *requirements: str) -> None:
    files = folder / "files"
    packages = "python3-minimal python3.11 libstdc++6 libgomp1"
    debootstrap(files, "bookworm", packages, apt.mirror().source("bookworm"))
    pip(files / "opt/lib", _PYTHON, *requirements)
    for waste in ("var/lib/apt", "var/cache/apt", "opt/lib/torch/include", "opt/lib/torch/test"):
        shutil.rmtree(files / waste, ignore_errors=True)
    _pack(folder, files)


def _pack(folder: Path, files: Path) -> None:
    call("tar", "--create", f"--file={folder}/root.tar", f"--directory={files}", ".")
    shutil.rmtree(files)


_BUILDERS: dict[Image, Callable[[Path], None]] = {
    "busybox": _busybox,
    "python": _python,
    "torch": _torch,
}
