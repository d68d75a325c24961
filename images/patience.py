"""How long a store is waited for."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a store, in seconds."""

    request: float = 60.0
    """For the answer to one request; a pack of 32 MiB needs 4.5 Mbit/s."""
    total: float = 120.0
    """Until no other try is begun."""


USUAL: Final = Patience()
"""Of whoever is in no hurry."""
