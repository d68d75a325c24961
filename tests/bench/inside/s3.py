"""Runs on a lab host: spotrun's backend for S3 and bare clients move packs in turn, as JSON.

The payload is not signed, as over TLS: else the hash, which is the same for all, hides the rest.

Usage: s3 PORT ROUNDS: of a server that keeps nothing.
"""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from os import environ, urandom
from typing import Final

import boto3
import obstore
from botocore import UNSIGNED
from botocore.config import Config
from obstore.store import S3Store

from spotrun.images.backends.objects import ObjectBackend
from spotrun.images.backends.s3 import OPTIONS, Credentials, config
from spotrun.images.backends.url import parse
from spotrun.images.pack import FRAME_BYTES, PACK_BYTES
from spotrun.images.patience import Patience
from tests.bench.inside.told import tell

_BUCKET: Final = "bench"
_OBJECTS: Final = 16
_THREADS: Final = 4
_READ: Final = 8 << 20
"""Bytes of a range, as a restore reads them."""
_NAME: Final = "bench"
_SECRET: Final = "bench-secret"  # noqa: S105 # nobody checks it
_FRAMES: Final = [urandom(FRAME_BYTES) for _ in range(PACK_BYTES // FRAME_BYTES)]
"""A pack as a push hands it over."""
_WHOLE: Final = b"".join(_FRAMES)

Move = Callable[[str], object]
"""Put or get the object of that key."""


def main() -> None:
    """Tell the MB/s of each client in each round, by direction and client."""
    port, rounds = map(int, sys.argv[1:])
    environ.update(AWS_ACCESS_KEY_ID=_NAME, AWS_SECRET_ACCESS_KEY=_SECRET)
    clients = {**_engines(f"http://127.0.0.1:{port}"), **_boto3(f"http://127.0.0.1:{port}")}
    found: dict[str, list[float]] = {name: [] for name in clients}
    names = list(clients)
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            rate = _rate(clients[name])
            if number:  # the first round makes the connections
                found[name].append(rate)
    tell(found)


def _engines(endpoint: str) -> dict[str, Move]:
    """Return spotrun's backend, and the library below it, with the same settings."""
    url = parse(f"s3://{_BUCKET}/store?endpoint={endpoint}", *OPTIONS)
    settings = config(url)
    settings["unsigned_payload"] = True
    known = settings.copy()
    known.update({"access_key_id": _NAME, "secret_access_key": _SECRET})
    credentials = Credentials(url.name, None)
    patience = Patience()
    ours, bare = (
        S3Store(
            _BUCKET,
            prefix=url.prefix,
            config=chosen,
            credential_provider=provider,
            client_options={"allow_http": True, "timeout": timedelta(seconds=patience.request)},
            retry_config={"max_retries": 0},
        )
        for chosen, provider in ((settings, credentials), (known, None))
    )
    backend = ObjectBackend(ours, url.name, patience=patience, renew=credentials.renew)
    return {
        "put spotrun": lambda key: backend.put(key, _FRAMES),
        "put obstore": lambda key: obstore.put(bare, key, _WHOLE, use_multipart=False),
        "get spotrun": _ranges(lambda key, at: backend.read(key, at, _READ)),
        "get obstore": _ranges(
            lambda key, at: obstore.get_range(bare, key, start=at, length=_READ)
        ),
    }


def _boto3(endpoint: str) -> dict[str, Move]:
    """Return boto3's client, with all that slows it down left out."""
    settings = Config(
        signature_version=UNSIGNED,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        max_pool_connections=_THREADS,
        s3={"addressing_style": "path"},
    )
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", config=settings)
    return {
        "put boto3": lambda key: client.put_object(Bucket=_BUCKET, Key=key, Body=_WHOLE),
        "get boto3": _ranges(
            lambda key, at: client.get_object(
                Bucket=_BUCKET, Key=key, Range=f"bytes={at}-{at + _READ - 1}"
            )["Body"].read()
        ),
    }


def _ranges(read: Callable[[str, int], object]) -> Move:
    """Return what reads a whole pack."""

    def move(key: str) -> None:
        for at in range(0, PACK_BYTES, _READ):
            read(key, at)

    return move


def _rate(move: Move) -> float:
    """Return the MB/s of so many objects, a few at a time."""
    start = time.monotonic()
    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(move, (f"packs/{number}" for number in range(_OBJECTS))):
            pass
    return _OBJECTS * PACK_BYTES / 1e6 / (time.monotonic() - start)


if __name__ == "__main__":
    main()
