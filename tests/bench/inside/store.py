"""Runs on a lab host: one push or pull of a folder, as JSON.

Usage: store make STORE
       store push STORE FOLDER
       store pull STORE FOLDER: the newest snapshot, to a folder that is not there

SPOTRUN_KEY in the environment has the secret of an encrypted store.
"""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from spotrun.images.address import Address
from spotrun.images.manifest import new_snapshot_id
from spotrun.images.opening import open_store
from tests.bench.inside.told import tell, timed
from tests.fakes.stores import pushed

_JOB: Final = "bench"


def main() -> None:
    """Do one of these, the opening of the store included."""
    verb, url, *rest = sys.argv[1:]
    with timed() as told:
        store = open_store(Address(url), make=verb == "make")
        if verb == "push":
            name = new_snapshot_id(datetime.now(UTC))
            _, told.count = pushed(store, Path(rest[0]), job=_JOB, snapshot=name)
        elif verb == "pull":
            told.count = store.fetch(store.find(_JOB, None), Path(rest[0]))
    tell(told)


if __name__ == "__main__":
    main()
