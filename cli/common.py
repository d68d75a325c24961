"""What the verbs share: their options, and the host with earlier accidents settled."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from spotrun.cli.opened import KEY_FILE, address, opened
from spotrun.cli.output import Output
from spotrun.images.errors import JobUntended
from spotrun.runtime import jobs
from spotrun.runtime.host import Host
from spotrun.runtime.paths import Paths

_F = TypeVar("_F", bound=Callable[..., Any])


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
        envvar=KEY_FILE,
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


def seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:  # noqa: ARG001 # click's signature
    """Read an option like `120s` or `10m`."""
    from spotrun.runtime import rhythm

    try:
        return None if value is None else rhythm.length(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def untended(host: Host, names: Sequence[str]) -> list[str]:
    """Tell of all jobs that were looked after and are no more, unless some are named."""
    from spotrun.runtime import supervising

    found = [] if names else supervising.left_alone(host)
    for name in found:
        command = f"`spotrun run --job {name} …` takes it on"
        output().note(f"{JobUntended(job=name)}: its supervisor was killed; {command}")
    return found


def output() -> Output:
    """Return the output of the running command."""
    return click.get_current_context().ensure_object(Output)


def open_host() -> Host:
    """Return this host, its folders made and what a killed spotrun left settled."""
    return opened(output())
