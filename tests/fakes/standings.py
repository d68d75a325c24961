"""What supervisors say that there are none of."""

from typing import Any

from spotrun.runtime.forecast import Forecast
from spotrun.runtime.standing import Standing


def said(**changes: Any) -> Standing:  # noqa: ANN401 # any field
    """Return how things stand with a job that needs five seconds to be saved."""
    known: dict[str, Any] = {
        "pid": 1,
        "since": "",
        "container": None,
        "saving": False,
        "next": "",
        "interval": 60.0,
        "forecast": Forecast(5, 1, 1),
        "saved": None,
        "leaving": None,
    }
    return Standing(**{**known, **changes})
