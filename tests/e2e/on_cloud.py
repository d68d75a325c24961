"""A cloud on a lab host, at its real address: `python -m tests.e2e.on_cloud aws`.

It takes the host back in as many seconds as a line of its input says; an empty one calls that off.
"""

import sys

from tests.fakes.metadata import Service
from tests.hooks.notices.on_host import ADDRESSES
from tests.hooks.notices.stages import CLOUDS


def main(name: str) -> None:
    """Serve until the input ends."""
    cloud = CLOUDS[name][0]()
    with Service(cloud, (ADDRESSES[name], 80)):
        print("serving", flush=True)  # noqa: T201 # for the test
        for line in sys.stdin:
            if line.strip():
                cloud.announce(float(line))
            else:
                cloud.withdraw()


if __name__ == "__main__":
    main(sys.argv[1])
