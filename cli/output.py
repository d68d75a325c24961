"""The one place that prints.

People get tables and progress, the latter on stderr. Programs (`--format json`) get one envelope
on stdout and, while long work goes on, JSON lines on stderr. Both shapes are contracts; golden
examples are in `tests/cli/golden`.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from spotrun.cli.result import Result
from spotrun.images.errors import SpotrunError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from spotrun.cli.bar import Bar
    from spotrun.images.logfile import LogLine
    from spotrun.images.manifest import PhaseRecord
    from spotrun.images.meter import Progress
    from spotrun.runtime.adoption import Adopted
    from spotrun.runtime.settle import Outcome

RESULT_VERSION: Final = "1"


_COMMAND: Final = " COMMAND"
"""What stands in a hint for the command that was called."""
_PIPE_WIDTH: Final = 1000
"""Columns where no terminal cuts lines off."""


class Output:
    """Standard output and error of this process."""

    def __init__(self, *, json: bool) -> None:
        """Speak to a program, or to a person."""
        self.json = json
        self._phase = ""
        self._bar: Bar | None = None

    def result(self, command: str, result: Result) -> None:
        """Print a verb's result."""
        if self.json:
            self._envelope(command, "success" if not result.exit_code else "error", result.data, [])
        elif result.shown is not None:
            _console(stderr=False).print(result.shown)

    def error(self, command: str, error: SpotrunError) -> None:
        """Print one sentence, what to do, and where to read more."""
        if self._bar:
            self._bar.close()
        notes, hint = getattr(error, "__notes__", []), _hint(command, error)
        if self.json:
            document: dict[str, object] = {
                "code": error.code,
                "message": "; ".join([str(error), *notes]),
                "hint": hint or None,
                "log": str(error.log) if error.log else None,
            }
            self._envelope(command, "error", None, [document])
            return
        _say(f"spotrun: {error}")
        for line in [*notes, hint, f"log: {error.log}" if error.log else ""]:
            if line:
                _say(f"  {line}")

    def settled(self, outcome: "Outcome") -> None:
        """Tell what became of work that was cut off."""
        end = "done to the end" if outcome.finished else "taken back"
        text = f"an interrupted {outcome.verb} of job {outcome.job!r} has been {end}"
        if outcome.error:
            text = f"an interrupted {outcome.verb} of job {outcome.job!r} is open: {outcome.error}"
        self.note(text)

    def adopted(self, container: "Adopted") -> None:
        """Tell what became of a container that others started as a job."""
        which, job = container.container[:12], container.job
        said = f"container {which} is job {job!r} now"
        self.note(f"container {which}: {container.refusal}" if container.refusal else said)

    def note(self, text: str) -> None:
        """Print a line beside the result."""
        if self.json:
            self._event({"event": "note", "text": text})
        else:
            _say(f"spotrun: {text}")

    def log(self, line: "LogLine") -> None:
        """Print a piece of a container's output where the container printed it."""
        if self.json:
            text = line.data.decode(errors="replace")
            self._write(sys.stdout, {"stream": line.stream, "text": text})
            return
        stream = sys.stderr if line.stream == "stderr" else sys.stdout
        stream.buffer.write(line.data)
        stream.flush()

    def begin(self, phase: str) -> None:
        """Show that a phase begins (transaction.Observer)."""
        self._phase = phase
        if self.json:
            self._event({"event": "phase", "phase": phase, "state": "begin"})

    def progress(self, progress: "Progress") -> None:
        """Show how far a phase has come: a bar where there is a terminal (transaction.Observer)."""
        if self.json:
            rate, left = round(progress.rate), progress.left
            self._event(
                {
                    "event": "progress",
                    "phase": self._phase,
                    "bytes": progress.done,
                    "total": progress.total,
                    "moved": progress.moved,
                    "bytes_per_second": rate,
                    "seconds_left": None if left is None else round(left, 1),
                }
            )
        elif sys.stderr.isatty():
            from spotrun.cli.bar import Bar

            self._bar = self._bar or Bar(_console(stderr=True), self._phase)
            self._bar.show(progress)

    def end(self, record: "PhaseRecord") -> None:
        """Show what a phase took (transaction.Observer)."""
        if self._bar:
            self._bar.close()
            self._bar = None
        if self.json:
            done = {"seconds": record.seconds, "bytes": record.bytes}
            self._event({"event": "phase", "phase": record.name, "state": "end", **done})
        elif sys.stderr.isatty():
            _say(f"  {phase_line(record)}")

    def _envelope(
        self, command: str, status: str, data: object, errors: Sequence[dict[str, object]]
    ) -> None:
        document = {
            "spotrun_result_version": RESULT_VERSION,
            "command": command,
            "status": status,
            "data": data,
            "errors": errors,
        }
        self._write(sys.stdout, document)

    def _event(self, document: object) -> None:
        self._write(sys.stderr, document)

    @staticmethod
    def _write(stream: object, document: object) -> None:
        import msgspec

        print(msgspec.json.encode(document).decode(), file=stream, flush=True)  # type: ignore[call-overload]


def _hint(command: str, error: SpotrunError) -> str:
    """Return what to do, for this command if there is one of that name."""
    if _COMMAND not in error.hint:
        return error.hint
    from spotrun.cli.group import VERBS

    return error.hint.replace(_COMMAND, f" {command}" if command in VERBS else "")


def _say(text: str) -> None:
    with suppress(OSError):  # where nobody hears it, or the log is full, the work goes on
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def _console(*, stderr: bool) -> "Console":
    """Return what draws for people; it is heavy, and most commands need none."""
    from rich.console import Console

    made = Console(stderr=stderr, soft_wrap=True, highlight=False)
    if not made.is_terminal:
        made.width = _PIPE_WIDTH
    return made


def phase_line(record: "PhaseRecord") -> str:
    """Return a phase's name, time and size for people."""
    return f"{record.name:<18} {record.seconds:8.3f} s  {size(record.bytes):>10}".rstrip()


def size(count: int) -> str:
    """Return a number of bytes for people; nothing for none."""
    if not count:
        return ""
    value, units = float(count), iter(("B", "KiB", "MiB", "GiB"))
    unit = next(units)
    while value >= 1024 and unit != "GiB":  # noqa: PLR2004 # binary prefixes
        value, unit = value / 1024, next(units)
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def counted(count: int, what: str) -> str:
    """Return so many of something, for people."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def table(*columns: str) -> "Table":
    """Return an empty table in the house style."""
    from rich.table import Table

    made = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for column in made.columns:
        column.no_wrap = True
    return made


def timeline(phases: "Sequence[PhaseRecord]", total: "Sequence[PhaseRecord]" = ()) -> "Table":
    """Return phases with their times and sizes, and the sum of those in `total` or of all."""
    made = table("PHASE", "SECONDS", "BYTES")
    made.columns[1].justify = made.columns[2].justify = "right"
    for record in phases:
        made.add_row(record.name, f"{record.seconds:.3f}", size(record.bytes))
    seconds = sum(record.seconds for record in total or phases)
    made.add_row("all", f"{seconds:.3f}", "", style="bold")
    return made
