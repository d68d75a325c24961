"""What the verbs share: their options, and the host with earlier accidents settled."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from spotrun.cli.output import Output
from spotrun.images.errors import HostUnfit, UsageError
from spotrun.images.opening import Address
from spotrun.runtime import jobs, scratch
from spotrun.runtime.host import Host, this_host
from spotrun.runtime.paths import Paths
from spotrun.runtime.settle import settle

_F = TypeVar("_F", bound=Callable[..., Any])


_KEY_FILE: Final = "SPOTRUN_KEY_FILE"
"""Its variable, which is for those stores that --store names."""


def format_option(function: _F) -> _F:
    """Add `--format`; `main` has read it already."""
    choice = click.Choice(["table", "json"])
    add = click.option(
        "--format", type=choice, default="table", expose_value=False, help="for people or programs"
    )
    return add(function)


def store_option(function: _F) -> _F:
    """Add `--store` and `--key-file`; the verb gets `store`, an Address or None."""
    name = click.option(
        "--store",
        metavar="PLACE",
        envvar="SPOTRUN_STORE",
        help="where the snapshots are: a path, s3://, gs:// or az://BUCKET/PREFIX;"
        " default: the job's own, else /var/lib/spotrun/store",
    )
    key = click.option(
        "--key-file",
        metavar="FILE",
        envvar=_KEY_FILE,
        help="the file with the secret of an encrypted store",
    )

    @wraps(function)
    def addressed(*args: Any, store: str | None, key_file: str | None, **others: Any) -> Any:  # noqa: ANN401 # whatever the verb takes
        if _is_default("store") and _has_own(others.get("job") or others.get("which")):
            store = key_file = None
        return function(*args, store=address(store, key_file), **others)

    return name(key(addressed))  # type: ignore[return-value] # click reads what wraps has copied


def _is_default(option: str) -> bool:
    """Tell whether an option comes from its variable, which is for jobs that have no other."""
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.ENVIRONMENT


def _has_own(job: str | None) -> bool:
    return job is not None and jobs.load(Paths.of(), job) is not None


def address(store: str | None, key_file: str | None) -> Address | None:
    """Return the store that two options name; None: the job's own, with its own key."""
    if store is None:
        if key_file not in {None, os.environ.get(_KEY_FILE)}:
            raise UsageError(message="--key-file needs --store: jobs know the keys of their stores")
        return None
    if not store:
        raise UsageError(message="--store is empty: name a path or a bucket")
    key = str(Path(key_file).absolute()) if key_file else None
    return Address(store if "://" in store else str(Path(store).absolute()), key)


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
    scratch.sweep(host.paths)
    return host
