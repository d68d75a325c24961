"""`python -m tests.lab`: build what the lab caches, or try something on fresh hosts."""

import sys
from typing import get_args

import click

from tests.lab.cgroups import Layout
from tests.lab.images import Image, store
from tests.lab.lab import Lab
from tests.lab.root import root

_IMAGE = click.Choice(get_args(Image))


@click.group()
def lab() -> None:
    """Hosts on one machine."""


@lab.command()
@click.argument("images", nargs=-1, type=_IMAGE)
def build(images: tuple[Image, ...]) -> None:
    """Build the root and these images, once."""
    click.echo(root())
    for image in images:
        click.echo(store(image))


@lab.command()
@click.option("-n", "count", default=2, show_default=True)
@click.option("--image", "images", multiple=True, type=_IMAGE, default=["busybox"])
@click.option("--layout", type=click.Choice(get_args(Layout)), default="v2", show_default=True)
@click.argument("command", nargs=-1)
def shell(count: int, images: tuple[Image, ...], layout: Layout, command: tuple[str, ...]) -> None:
    """Start hosts and run a command, by default a shell, on the first; then all are gone."""
    with Lab() as started:
        first = started.start(count, images=images, layout=layout)[0]
        status = first.attach(command or ["bash"])
    sys.exit(status)


if __name__ == "__main__":
    lab()
