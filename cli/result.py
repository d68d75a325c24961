"""What a verb returns; only `output` prints it."""

from dataclasses import dataclass

from rich.console import RenderableType

from spotrun.images.errors import ExitCode


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one verb."""

    data: object
    """For programs: anything msgspec can encode."""
    shown: RenderableType | None = None
    """For people; None: nothing is left to say."""
    exit_code: int = ExitCode.OK
