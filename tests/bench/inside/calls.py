"""Runs on a lab host: the seconds of calls through two programs in turn, as JSON.

Usage: calls PROGRAM PROGRAM ARGUMENT…
"""

import json
import subprocess
import sys
import time

_TIMES = 30


def main() -> None:
    """Call both in turn with the same arguments."""
    programs, arguments = sys.argv[1:3], sys.argv[3:]
    found: list[list[float]] = [[], []]
    for _ in range(_TIMES):
        for program, seconds in zip(programs, found, strict=True):
            start = time.monotonic()
            subprocess.run([program, *arguments], stdout=subprocess.DEVNULL, check=True)
            seconds.append(time.monotonic() - start)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
