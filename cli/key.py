"""`spotrun key …`: the secrets that open an encrypted store."""

import click

from spotrun.cli.common import format_option, open_host, output, store_option
from spotrun.cli.output import table
from spotrun.cli.result import Result
from spotrun.images import opening
from spotrun.images.address import Address


@click.group("key")
def command() -> None:
    """Add, replace, remove or list the keys of an encrypted store.

    Each opens the same data, which stay as they are. --key-file names one that does.
    """


@command.command("list")
@store_option
@format_option
def listed(store: Address | None) -> Result:
    """List the keys."""
    found = opening.keys_of(_address(store))
    shown = table("KEY", "ADDED")
    for it in found:
        shown.add_row(it.id, it.created)
    if not found:
        output().note("the store is not encrypted: it has no keys")
    return Result([{"key": it.id, "added": it.created} for it in found], shown if found else None)


@command.command("add")
@click.argument("file")
@store_option
@format_option
def add(store: Address | None, file: str) -> Result:
    """Let the secret in FILE open the store, too."""
    place, secret = _address(store), opening.secret_of(file)
    return _done(opening.add_key(place, secret), "opens the store, too")


@command.command("rotate", short_help="Let another secret open the store instead.")
@click.argument("file")
@store_option
@format_option
def rotate(store: Address | None, file: str) -> Result:
    """Let the secret in FILE open the store, and the one of --key-file no longer."""
    place, secret = _address(store), opening.secret_of(file)
    return _done(opening.rotate_key(place, secret), "opens the store instead")


@command.command("remove")
@click.argument("key")
@store_option
@format_option
def remove(store: Address | None, key: str) -> Result:
    """Let KEY, an id of `key list`, open the store no longer."""
    opening.remove_key(_address(store), key)
    return _done(key, "has been removed")


def _address(store: Address | None) -> Address:
    return store or open_host().own_store


def _done(key: str, what: str) -> Result:
    output().note(f"key {key} {what}")
    return Result({"key": key})
