"""The one place where requests to an object store are tried again."""

from collections.abc import Callable
from typing import Final, TypeVar

from obstore.exceptions import BaseError
from tenacity import Retrying, retry_if_exception, stop_before_delay, wait_random_exponential

from spotrun.images.backends.trouble import Verdict, judge
from spotrun.images.patience import Patience

T = TypeVar("T")
ERRORS: Final = (BaseError, FileNotFoundError)
"""What obstore raises."""


def tried(action: Callable[[], T], patience: Patience, renew: Callable[[], None] | None) -> T:
    """Do it, again and again while that may help; it must be safe to do it twice.

    `renew` reads credentials anew; it is called at most once.
    """
    renewals = iter([renew] if renew else [])

    def helps(error: BaseException) -> bool:
        if not isinstance(error, ERRORS):
            return False  # our own, or Ctrl-C
        verdict = judge(error)
        if verdict is Verdict.EXPIRED and (once := next(renewals, None)):
            once()
            return True
        return verdict is Verdict.PASSING

    retrying = Retrying(
        retry=retry_if_exception(helps),
        wait=wait_random_exponential(multiplier=0.2, max=10),  # full jitter
        stop=stop_before_delay(patience.total),
        reraise=True,
    )
    return retrying(action)
