"""What shells offer beside verbs and options."""

import click

from spotrun.runtime.paths import Paths


def job_names(ctx: click.Context, param: click.Parameter | None, incomplete: str) -> list[str]:  # noqa: ARG001 # click's signature
    """Return the names of this host's jobs, as far as the user may see them."""
    try:
        found = [it.stem for it in Paths.of().jobs.glob("[!.]*.json")]
    except OSError:
        return []
    return sorted(name for name in found if name.startswith(incomplete))
