"""The end of a job's container, told once it has come."""

import threading
from collections.abc import Callable
from time import sleep
from typing import Final

from spotrun.images.errors import EngineError, NotHere
from spotrun.runtime.host import Host

_STEP: Final = 0.2
_SILENT: Final = 2.0
"""Seconds before an engine that did not answer is asked again."""


def watch(host: Host, job: str, tell: Callable[[int | None], None]) -> str | None:
    """Return the container of a job, and have its end told, from a thread.

    It is told with its exit code. None: look again, for it has gone, or the engine does not answer.
    """
    try:
        found, pause = host.job_container(job), _STEP
    except EngineError:
        found, pause = None, _SILENT

    def await_it() -> None:
        code, then = None, pause
        try:
            code = host.engine.wait(found.id) if found else None
        except NotHere:  # it has gone with its end
            pass
        except EngineError:
            then = _SILENT
        sleep(then)
        tell(code)

    threading.Thread(target=await_it, name="end", daemon=True).start()
    return found.id if found else None
