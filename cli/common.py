"""What the verbs share: their options, and the host with earlier accidents settled."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from spotrun.cli.output import Output
from spotrun.images.errors import HostUnfit
from spotrun.runtime.host import Host, this_host
from spotrun.runtime.settle import settle

_F = TypeVar("_F", bound=Callable[..., Any])


def format_option(function: _F) -> _F:
    """Add `--format`; `main` has read it already."""
    choice = click.Choice(["table", "json"])
    add = click.option(
        "--format", type=choice, default="table", expose_value=False, help="for people or programs"
    )
    return add(function)


def store_option(function: _F) -> _F:
    """Add `--store`."""
    add = click.option(
        "--store",
        metavar="DIR",
        envvar="SPOTRUN_STORE",
        help="where the snapshots are; default: the job's own, else /var/lib/spotrun/store",
    )
    return add(function)


def output() -> Output:
    """Return the output of the running command."""
    return click.get_current_context().ensure_object(Output)


def open_host() -> Host:
    """Return this host, its folders made and what a killed spotrun left settled."""
    if os.geteuid() != 0:
        raise HostUnfit(message="spotrun needs root: CRIU dumps memory and the engine runs as root")
    host, told = this_host(), output()
    host.paths.prepare()
    for outcome in settle(host, told):
        told.settled(outcome)
    return host
