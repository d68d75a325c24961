"""Test images, made on this machine: no registry has them.

Each lies in a read-only store that hosts share, and as an archive for engines that are to be
without the store.
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


def name(image: Image) -> str:
    """Return the name under which engines know it."""
    return f"localhost/lab/{image}:1"


def store(image: Image) -> Path:
    """Return a store of Podman's that has this image, built now if it never was."""
    makers = (_BUILDERS[image], _busybox if image == "busybox" else _debian, _import)
    recipe = repr((TORCH, _NUMPY, _PYTHON, _ENV, [inspect.getsource(maker) for maker in makers]))

    def build(folder: Path) -> None:
        files = folder / "files"
        _BUILDERS[image](files)
        _import(files, image, folder / "store")
        shutil.rmtree(files)

    return built(f"image-{image}", recipe, build) / "store"


def archive(image: Image) -> Path:
    """Return the image as Podman saves it, for `Host.load_image`; built now if it never was."""
    from tests.lab.lab import Lab

    def build(folder: Path) -> None:
        with Lab() as lab:
            (host,) = lab.start(1, images=(image,))
            what = host.run(["podman", "image", "inspect", "-f", "{{.Id}}", name(image)]).stdout
            # by its ID, not its name: `Host.load_image` gives a name
            save = ["podman", "save", "--quiet", "--output=/mnt/machine/new.tar", what.strip()]
            host.run(save, timeout=600)
            (lab.shared / "new.tar").rename(folder / "image.tar")

    return built(f"archive-{image}", str(store(image)), build) / "image.tar"


def _import(files: Path, image: Image, place: Path) -> None:
    """Make a store of files; the tools for that are on the hosts."""
    from tests.lab.lab import Lab

    podman = ["podman", "--root=/var/lib/containers/new", "import", "--quiet"]
    podman += [f"--change=ENV {variable}" for variable in _ENV]
    with Lab() as lab:
        (host,) = lab.start(1, images=())
        call("tar", "--create", f"--file={lab.shared / 'new.tar'}", f"--directory={files}", ".")
        host.run([*podman, "/mnt/machine/new.tar", name(image)], timeout=600)
        host.power_off()
        (host.disk / "containers/new").rename(place)


def _busybox(files: Path) -> None:
    applets = (
        "sh ls cat echo sleep date rm mv cp ln mkdir mknod chmod chown touch grep nc httpd ps"
        " stat truncate seq od md5sum sha256sum find du df kill sync dd env id hostname tail"
        " readlink wget"
    )
    for sub in ("bin", "etc", "tmp", "data", "proc", "sys", "dev"):
        (files / sub).mkdir(parents=True)
    shutil.copy2(root() / "usr/bin/busybox", files / "bin/busybox")
    for applet in applets.split():
        (files / "bin" / applet).symlink_to("busybox")
    (files / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
    (files / "etc/group").write_text("root:x:0:\n")
    for number in range(4):
        (files / f"data/{number}").write_text(f"from the image: {number}\n")


def _python(files: Path) -> None:
    _debian(files, _NUMPY)


def _torch(files: Path) -> None:
    _debian(files, _NUMPY, TORCH)
    for waste in ("include", "test"):
        shutil.rmtree(files / "opt/lib/torch" / waste, ignore_errors=True)


def _debian(files: Path, *requirements: str) -> None:
    packages = "python3-minimal python3.11 libstdc++6 libgomp1"

    def build(folder: Path) -> None:
        debootstrap(folder / "root", "bookworm", packages, apt.mirror().source("bookworm"))
        for waste in ("var/lib/apt", "var/cache/apt"):
            shutil.rmtree(folder / "root" / waste)

    call("cp", "--archive", built("bookworm", packages, build) / "root", files)
    pip(files / "opt/lib", _PYTHON, *requirements)


_BUILDERS: dict[Image, Callable[[Path], None]] = {
    "busybox": _busybox,
    "python": _python,
    "torch": _torch,
}
