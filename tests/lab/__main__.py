"""`python -m tests.lab`: build what the lab caches, or try something on fresh hosts."""

import subprocess
import sys
from typing import cast

import click

from tests.lab.images import Image, store
from tests.lab.lab import Lab
from tests.lab.root import root


@click.group()
def lab() -> None:
    """Hosts on one machine."""


@lab.command()
@click.argument("images", nargs=-1)
def build(images: tuple[str, ...]) -> None:
    """Build the root and these images (busybox, python, torch), once."""
    click.echo(root())
    if images:
        click.echo(store(cast("tuple[Image, ...]", images)))


@lab.command()
@click.option("-n", "count", default=2, show_default=True)
@click.option("--image", "images", multiple=True, default=["busybox"], show_default=True)
@click.option("--layout", default="v2", show_default=True)
@click.argument("command", nargs=-1)
def shell(count: int, images: tuple[str, ...], layout: str, command: tuple[str, ...]) -> None:
    """Start hosts and run a command, by default a shell, on the first; then all are gone."""
    with Lab() as started:
        hosts = started.start(count, images=cast("tuple[Image, ...]", images), layout=layout)
        words = list(command) or ["bash"]
        done = subprocess.run(["nsenter", f"-t{hosts[0].pid}", "-a", *words], check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    lab()
