"""What a verb returns; only `output` prints it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spotrun.images.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one verb."""

    data: object
    """For programs: anything msgspec can encode."""
    shown: "RenderableType | None" = None
    """For people; None: nothing is left to say."""
    exit_code: int = ExitCode.OK
