"""`spotrun peer …`: what one host's migrate asks of another; not for people."""

import sys

import click
import msgspec

from spotrun.cli.common import format_option, open_host
from spotrun.cli.result import Result
from spotrun.images.runspec import ImageRef
from spotrun.runtime import peer
from spotrun.runtime.admission import Demand


@click.group("peer")
def command() -> None:
    """Serve another host's migrate."""


@command.command("admit")
@format_option
def admit() -> Result:
    """Say whether a job may come; stdin is its demand."""
    demand = msgspec.json.decode(sys.stdin.buffer.read(), type=Demand)
    return Result(peer.admit(open_host(), demand))


@command.command("take-image")
@click.argument("image")
@format_option
def take_image(image: str) -> Result:
    """Load an image; stdin is a tar stream."""
    peer.take_image(open_host(), msgspec.json.decode(image, type=ImageRef), sys.stdin.buffer)
    return Result(None)


@command.command("lacks")
@format_option
def lacks() -> Result:
    """Say which packs this host does not have; stdin is their keys."""
    keys = msgspec.json.decode(sys.stdin.buffer.read(), type=list[str])
    return Result(peer.lacks(open_host(), keys))


@command.command("take")
@click.argument("job")
@click.argument("snapshot")
@format_option
def take(job: str, snapshot: str) -> Result:
    """Store a snapshot; stdin is a tar stream."""
    peer.take(open_host(), job, snapshot, sys.stdin.buffer)
    return Result(None)


@command.command("settle")
@click.argument("job")
@click.argument("snapshot")
@format_option
def settle(job: str, snapshot: str) -> Result:
    """Say whether the job runs here from that snapshot; if not, it never will."""
    return Result(peer.settle(open_host(), job, snapshot))
