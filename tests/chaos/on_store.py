"""Says which snapshots of a job are committed, a line of JSON each second: on_store.py URL JOB."""

import json
import sys
import time
from contextlib import suppress

from spotrun.images.address import NO_KEY, Address
from spotrun.images.errors import SpotrunError
from spotrun.images.opening import open_store


def main(url: str, job: str) -> None:
    """Say it until nobody listens."""
    while True:
        with suppress(SpotrunError):
            committed = open_store(Address(url, NO_KEY), make=False).committed(job)
            print(json.dumps(committed), flush=True)  # noqa: T201 # for the test
        time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
