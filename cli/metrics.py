"""`spotrun metrics`: what Prometheus is to know of this host's jobs."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
from rich.text import Text

from spotrun.cli.common import format_option, open_host, output
from spotrun.cli.report import file_option, put
from spotrun.cli.result import Result
from spotrun.images.errors import UsageError
from spotrun.runtime import metrics

_PLACE: Final = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>[0-9]{1,5})")
_PORTS: Final = 1 << 16


def _place(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, int] | None:  # noqa: ARG001 # click's signature
    if value is None:
        return None
    it = _PLACE.fullmatch(value)
    if it is None or int(it["port"]) >= _PORTS:
        raise click.BadParameter(f"{value!r} is not like 127.0.0.1:9109 or [::1]:9109")
    return it["six"] or it["host"], int(it["port"])


@click.command("metrics")
@file_option
@click.option(
    "--listen",
    metavar="ADDR:PORT",
    callback=_place,
    help="answer GET /metrics there until this is ended; 0.0.0.0:9109: to everybody",
)
@format_option
def command(file: Path | None, listen: tuple[str, int] | None) -> Result | None:
    """Tell Prometheus how the jobs of this host are: in its text format, or over HTTP.

    Only what is known on this host is told, so no store is asked. With -o the file is for the
    textfile collector of node_exporter, as often as this is run.
    """
    if file and listen:
        raise UsageError(message="-o and --listen are two ways: take one")
    host = open_host()
    if listen:
        with metrics.server(listen, lambda: metrics.text(metrics.collect(host))) as server:
            address, port = server.server_address[:2]
            shown = f"[{address!s}]" if ":" in str(address) else str(address)
            output().note(f"http://{shown}:{port}/metrics")
            with suppress(KeyboardInterrupt):  # so ends what only listens
                server.serve_forever()
        return None
    found = metrics.collect(host)
    if file is None:
        return Result(found, Text(metrics.text(found).rstrip("\n")))
    put(file, metrics.text(found))
    return Result(found)
