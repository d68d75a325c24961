"""The bar of one long phase, on a terminal."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import (
    Progress as RichProgress,
)

from spotrun.images.meter import Progress


class Bar:
    """Bytes, rate, time left, and what need not be moved, while a phase lasts."""

    def __init__(self, console: Console, phase: str) -> None:
        """Begin to show it."""
        self._shown = RichProgress(
            TextColumn("  {task.description:<18}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[saved]}"),
            console=console,
            transient=True,
        )
        self._task = self._shown.add_task(phase, total=None, saved="")
        self._shown.start()

    def show(self, progress: Progress) -> None:
        """Move it; from any thread."""
        share = 1 - progress.moved / progress.done if progress.done else 0
        saved = f"{share:.0%} saved" if share > 0 else ""
        self._shown.update(self._task, total=progress.total, completed=progress.done, saved=saved)

    def close(self) -> None:
        """Take it away."""
        self._shown.stop()
