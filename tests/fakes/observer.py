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
        self.told: list[tuple[str, Progress]] = []
        """How far each phase had come."""

    def begin(self, phase: str) -> None:
        """Take note that a phase begins."""
        self.begun.append(phase)

    def progress(self, progress: Progress) -> None:
        """Take note how far the last phase has come."""
        self.told.append((self.begun[-1] if self.begun else "", progress))

    def end(self, record: PhaseRecord) -> None:
        """Take note that a phase is done."""
        self.ended.append(record)

    def note(self, text: str) -> None:
        """Take note of what the user should know."""
        self.notes.append(text)
