"""What `run` tells of the future: that a last snapshot would not fit, and that it would again."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from spotrun.images.meter import often
from spotrun.runtime import forecast, standing, tenure
from spotrun.runtime.coming import Wish
from spotrun.runtime.forecast import Forecast
from spotrun.runtime.host import Host
from spotrun.runtime.past import Past

_PAUSE: Final = 1.0
"""Seconds between two looks at what the supervisor says, which changes with each snapshot."""


class Outlook:
    """Whether a last snapshot of a job fits, told when that is news; fitting is none at first."""

    def __init__(self, host: Host, wish: Wish, tell: Callable[[str], None]) -> None:
        """Have told nothing yet."""
        self._host, self._wish, self._tell = host, wish, tell
        self._left = wish.care.grace or forecast.USUAL
        self._fits = True

    def tell_now(self) -> None:
        """Tell what the supervisor foretells; of a job that has just come, we do if it has not."""
        # What it says needs no store, which may be down.
        said = standing.read(self._host.paths, self._wish.job)
        foretold = said.forecast if said else self._foretold()
        if foretold:
            self._hear(foretold)

    def followed(self) -> AbstractContextManager[None]:
        """Tell, as long as it lasts, what the supervisor foretells."""
        return often(self._listen, _PAUSE)

    def _listen(self) -> None:
        said = standing.read(self._host.paths, self._wish.job)
        if said:
            self._hear(said.forecast)

    def _foretold(self) -> Forecast | None:
        job, care = self._wish.job, self._wish.care
        noted, host = tenure.of(self._host.paths, job), self._host.of(job)
        found = host.container(job)
        return Past(host, noted, care).foretell(found.id) if noted and found else None

    def _hear(self, foretold: Forecast) -> None:
        fits = forecast.fits(foretold, self._left)
        if foretold.basis and fits != self._fits:
            self._tell(f"a last snapshot {forecast.sentence(foretold, self._left)}")
            self._fits = fits
