"""The heart of a supervisor: it renews the lease, in a thread of its own, until it is lost."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from spotrun.images.errors import LeaseLost, StoreUnavailable
from spotrun.images.lease import Lease
from spotrun.runtime import fence, tenure
from spotrun.runtime.host import Host

_BEATS: Final = 6
"""In the time for which a lease is valid after each."""
_SOON: Final = 1.0
"""Seconds to the next one when the store did not take one."""


class Heart:
    """Beats from `__enter__` to `__exit__`; a request that hangs is left to its thread."""

    def __init__(
        self, host: Host, job: str, held: Lease, lost: Callable[[LeaseLost], None]
    ) -> None:
        """Call `lost`, from its thread, when it must stop."""
        self._paths, self._job, self._held, self._lost = host.paths, job, held, lost
        self._pause = host.lease_seconds / _BEATS
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        """Begin to beat."""
        threading.Thread(target=self._beat, name="heart", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Beat no more."""
        self._ended.set()

    def _beat(self) -> None:
        while not self._ended.is_set():
            pause = self._pause
            try:
                self._held.renew()
            except LeaseLost as error:
                noted = tenure.of(self._paths, self._job)
                if noted and noted.holder == self._held.holder:  # else it was given up here
                    fence.close(self._paths, self._job)
                self._lost(error)
                return
            except StoreUnavailable:
                pause = _SOON
            else:
                if not self._ended.is_set():
                    fence.put_off(self._paths, self._job, self._held.expires_at)
            self._ended.wait(pause)
