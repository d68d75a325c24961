"""What the bench finds out: comparisons."""

from dataclasses import dataclass
from typing import Final

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be reached: by the ratio, or by the value itself."""

    limit: float
    least: bool = False
    """More is better."""
    of_value: bool = False

    def met(self, figure: "Figure") -> bool:
        """Tell whether it is."""
        found = figure.value if self.of_value else figure.ratio
        return found >= self.limit if self.least else found <= self.limit

    def __str__(self) -> str:
        """Return it for people."""
        return f"{'>=' if self.least else '<='} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One comparison."""

    name: str
    value: float
    """Of spotrun."""
    unit: str
    against: float
    """Of the other."""
    other: str
    """What the other is, for people."""
    goal: Goal | None = None

    @property
    def ratio(self) -> float:
        """Tell how many times the other's value spotrun's is."""
        return self.value / self.against
