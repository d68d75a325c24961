"""What a verb works on: this host, with earlier accidents settled, and a store."""

import os
import re
from pathlib import Path
from typing import Final

from spotrun.cli.output import Output
from spotrun.images.address import Address
from spotrun.images.errors import HostUnfit, UsageError
from spotrun.runtime.host import Host, this_host

KEY_FILE: Final = "SPOTRUN_KEY_FILE"
"""The variable of --key-file, which is for those stores that --store names."""

_LIKE_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!//)")
"""What begins as a URL does (RFC 3986) and goes on otherwise: a slash was forgotten."""


def address(store: str | None, key_file: str | None) -> Address | None:
    """Return the store that two options name; None: the job's own, with its own key."""
    if store is None:
        if key_file not in {None, os.environ.get(KEY_FILE)}:
            raise UsageError(message="--key-file needs --store: jobs know the keys of their stores")
        return None
    if not store:
        raise UsageError(message="--store is empty: name a path or a bucket")
    if _LIKE_URL.match(store):
        raise UsageError(
            message=f"--store={store}: neither s3://BUCKET/PREFIX nor its like, nor a path:"
            f" a folder of that name is ./{store}"
        )
    key = str(Path(key_file).absolute()) if key_file else None
    return Address(store if "://" in store else str(Path(store).absolute()), key)


def opened(told: Output) -> Host:
    """Return this host, its folders made and what a killed spotrun left settled."""
    if os.geteuid() != 0:
        raise HostUnfit(message="spotrun needs root: CRIU dumps memory and the engine runs as root")
    host = this_host()
    host.paths.prepare()
    if any(host.paths.journal.glob("[!.]*")):  # a write that was killed leaves a hidden file
        from spotrun.runtime.settle import settle

        for outcome in settle(host, told):
            told.settled(outcome)
    if any(host.paths.scratch_locks.iterdir()):
        from spotrun.runtime import scratch

        scratch.sweep(host.paths)
    if any(host.paths.notes.glob("*")):
        from spotrun.runtime.adoption import adopt

        for container in adopt(host):
            told.adopted(container)
    return host
