"""An observer that remembers what it was told."""

from spotrun.images.manifest import PhaseRecord
from spotrun.images.meter import Progress


class Listener:
    """Takes note of every phase."""

    def __init__(self) -> None:
        """Start with nothing heard."""
        self.begun: list[str] = []
        self.ended: list[PhaseRecord] = []
        self.notes: list[str] = []

    def begin(self, phase: str) -> None:
        """Take note that a phase begins."""
        self.begun.append(phase)

    def progress(self, progress: Progress) -> None:
        """Forget it."""

    def end(self, record: PhaseRecord) -> None:
        """Take note that a phase is done."""
        self.ended.append(record)

    def note(self, text: str) -> None:
        """Take note of what the user should know."""
        self.notes.append(text)
