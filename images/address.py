"""Where a store is, as the user says it; opening.py opens it."""

from dataclasses import dataclass
from typing import Final

NO_KEY: Final = ""


@dataclass(frozen=True, slots=True)
class Address:
    """A store as the user names it."""

    url: str
    """A path, or a URL that `open_backend` knows."""
    key_file: str | None = None
    """The file with the secret of an encrypted store; None: `SPOTRUN_KEY` has it, if that is set.

    NO_KEY: the store is never encrypted, whatever that variable says.
    """

    @property
    def remote(self) -> bool:
        """Tell whether the store is somewhere else than in this host's file system."""
        return "://" in self.url and not self.url.startswith("file:")
