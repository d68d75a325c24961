"""Stands in for `spotrun run` in a scheduler's job: says who it is, and leaves at SIGTERM."""

import json
import os
import signal
import socket
import sys
from dataclasses import asdict

from spotrun.hooks.scheduler import named
from spotrun.images.errors import ExitCode
from spotrun.images.process import SystemRunner


def main() -> int:
    """Write a line of JSON at the start, and one more at the end."""
    verb, option, scheduler, store, _, *image = sys.argv[1:]
    assert (verb, option, store) == ("run", "--scheduler", "--store")
    found = named(scheduler, os.environ)
    assert found
    stop = {signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    who = {"host": socket.gethostname(), "user": os.geteuid(), "image": image}
    print(json.dumps(asdict(found) | who), flush=True)  # noqa: T201
    signal.sigwait(stop)
    print(json.dumps({"left": found.leave(SystemRunner())}), flush=True)  # noqa: T201
    return ExitCode.PREEMPTED


if __name__ == "__main__":
    raise SystemExit(main())
