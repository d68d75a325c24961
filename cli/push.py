"""`spotrun push`: a snapshot goes to a registry, or to the store that could not take it."""

import click

from spotrun.cli.common import format_option, open_host, output, store_option
from spotrun.cli.completion import job_names
from spotrun.cli.output import table, timeline
from spotrun.cli.result import Result
from spotrun.images.address import Address
from spotrun.images.errors import UsageError
from spotrun.runtime import registry, unsent


@click.command("push")
@click.argument("which", metavar="[JOB|SNAPSHOT]", required=False, shell_complete=job_names)
@click.argument("target", metavar="[oci://REGISTRY/REPOSITORY:TAG]", required=False)
@click.option("--plain-http", is_flag=True, help="reach the registry without TLS")
@click.option("--unencrypted", is_flag=True, help="also what an encrypted store keeps secret")
@store_option
@format_option
def command(
    which: str | None,
    target: str | None,
    store: Address | None,
    *,
    plain_http: bool,
    unencrypted: bool,
) -> Result:
    """Put a snapshot, or a job's newest, into a registry.

    Without a registry: send the snapshots that wait on this host because their store could not
    take them.
    """
    if target is None:
        if store or plain_http or unencrypted or (which and "://" in which):
            raise UsageError(message="name a job or a snapshot, and oci://REGISTRY/REPOSITORY:TAG")
        return _unsent(which)
    pushed = registry.push(
        open_host(),
        str(which),
        target,
        store=store,
        plain_http=plain_http,
        unencrypted=unencrypted,
        observer=output(),
    )
    output().note(f"snapshot {pushed.snapshot} is {pushed.reference}@{pushed.digest}")
    if pushed.base is None:
        output().note("no registry has its image: the host that pulls it must have that already")
    return Result(pushed, timeline(pushed.phases))


def _unsent(which: str | None) -> Result:
    sent = unsent.send(open_host(), which, output().progress)
    shown = table("JOB", "SNAPSHOT", "STORE")
    for it in sent:
        shown.add_row(it.job, it.snapshot, it.store.url)
    return Result(sent, shown)
