"""`make chaos`: 200 events in the life of one PyTorch job; SEED=… and EVENTS=… choose others."""

import os
import secrets
import time

from rich.console import Console

from tests.chaos.events import drawn
from tests.chaos.life import live
from tests.chaos.verdict import faults, summary
from tests.lab.lab import Lab


def main() -> None:
    """Let it live, and tell what did not hold."""
    console, begun = Console(highlight=False, soft_wrap=True, markup=False), time.monotonic()
    seed = int(os.environ.get("SEED") or secrets.randbelow(10**6))
    events = drawn(seed, int(os.environ.get("EVENTS") or 200))

    def say(text: str) -> None:
        console.print(f"{time.monotonic() - begun:7.1f} {text}")

    console.print(f"SEED={seed} EVENTS={len(events)}")
    with Lab() as lab:
        outcome = live(lab, seed, events, say)
    say(summary(outcome))
    if found := faults(outcome):
        raise SystemExit("\n".join([f"SEED={seed} EVENTS={len(events)} failed:", *found]))


if __name__ == "__main__":
    main()
