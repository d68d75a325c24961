"""Figures of the way to S3: spotrun's backend against the bare clients, on the same objects."""

from statistics import median
from typing import Final

from spotrun.images.pack import PACK_BYTES
from tests.bench import child
from tests.bench.figures import Figure, Goal
from tests.lab.host import Host

ROUNDS: Final = 7
_GOAL: Final = Goal(0.9, least=True)


def measure(host: Host) -> list[Figure]:
    """Return the figures in the order of the table."""
    with host.popen(child.command("swallow", str(PACK_BYTES))) as server:
        try:
            assert server.stdout
            port = server.stdout.readline().strip()
            rates = child.answer(host, dict[str, list[float]], "s3", port, str(ROUNDS))
        finally:
            server.kill()
    found = {name: median(them) for name, them in rates.items()}
    return [
        Figure(
            f"s3_{way}_vs_{name}",
            found[f"{way} spotrun"],
            "MB/s",
            found[f"{way} {client}"],
            f"{client}, bare",
            _GOAL if name == "client" else None,
        )
        for name, client in (("client", "obstore"), ("boto3", "boto3"))
        for way in ("put", "get")
    ]
