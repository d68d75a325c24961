"""`spotrun pull`: a snapshot comes from a registry."""

import click

from spotrun.cli.common import format_option, open_host, output, store_option
from spotrun.cli.output import timeline
from spotrun.cli.result import Result
from spotrun.images.address import Address
from spotrun.runtime import registry


@click.command("pull")
@click.argument("source", metavar="oci://REGISTRY/REPOSITORY:TAG")
@click.option("--plain-http", is_flag=True, help="reach the registry without TLS")
@store_option
@format_option
def command(source: str, store: Address | None, *, plain_http: bool) -> Result:
    """Take a snapshot from a registry into the store; `spotrun restore` goes on with it."""
    pulled = registry.pull(
        open_host(), source, store=store, plain_http=plain_http, observer=output()
    )
    known = "" if pulled.new else " already"
    output().note(f"snapshot {pulled.snapshot} of job {pulled.job!r} is in {pulled.store}{known}")
    return Result(pulled, timeline(pulled.phases))
