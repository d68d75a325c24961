"""A transaction whose phases write down what happens to them, and fail or die on demand.

Each phase takes effect by making a file of its name, and is taken back by removing it.
"""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spotrun.runtime.host import Host
from spotrun.runtime.locks import JobLock
from spotrun.runtime.transaction import Phase, Session, State, Transaction
from tests.fakes.observer import Listener

NAMES: Final = ("first", "second", "decide", "tidy", "last")
COMMIT: Final = "decide"


class Broken(OSError):
    """What a phase raises that was told to fail."""


@dataclass(slots=True, kw_only=True)
class Story(State):
    """What the phases know: where they write, and where they are to fail or to die."""

    folder: str
    fail: str = ""
    """Like `begin second`, `end second` or `undo second`."""
    die: str = ""
    """Likewise; the process is killed there."""

    @property
    def told(self) -> list[str]:
        """What has happened so far, in this process and others."""
        log = Path(self.folder) / "story"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def effects(self) -> list[str]:
        """The phases that are in effect."""
        return [name for name in NAMES if (Path(self.folder) / f"{name}.effect").exists()]

    def tell(self, event: str) -> None:
        """Write an event down, and fail or die if it is the one."""
        with (Path(self.folder) / "story").open("a") as log:
            log.write(event + "\n")
        if event == self.die:
            os.kill(os.getpid(), signal.SIGKILL)
        if event == self.fail:
            raise Broken(event)


def _do(name: str) -> Phase[Story]:
    def effect(story: Story) -> Path:
        return Path(story.folder) / f"{name}.effect"

    def do(session: Session, story: Story) -> int:  # noqa: ARG001
        story.tell(f"begin {name}")
        effect(story).touch()
        story.tell(f"end {name}")
        return len(name)

    def undo(session: Session, story: Story) -> None:  # noqa: ARG001
        story.tell(f"undo {name}")
        effect(story).unlink(missing_ok=True)

    return Phase(name, do, undo)


def _committed(session: Session, story: Story) -> bool:  # noqa: ARG001
    story.tell("committed?")
    return COMMIT in story.effects


TRANSACTION: Final[Transaction[Story]] = Transaction(
    verb="tell",
    state=Story,
    phases=[_do(name) for name in NAMES],
    commit=COMMIT,
    committed=_committed,
)


def session(host: Host) -> tuple[Session, Listener]:
    """Return a session that needs no lock, and what it tells."""
    listener = Listener()
    return Session(host, JobLock("job", -1), listener), listener


def steps(kind: str, names: Sequence[str]) -> list[str]:
    """Return the events of phases: `do`: begin and end of each; `undo`: the last first."""
    if kind == "undo":
        return [f"undo {name}" for name in reversed(names)]
    return [f"{event} {name}" for name in names for event in ("begin", "end")]
