#!/opt/spotrun/venv/bin/python
"""spotrun, except that it kills itself where /etc/fault says, like `dump processes:begin`.

Tests put it in the place of `/usr/local/bin/spotrun` on lab hosts. A fault strikes once.
"""

import os
import signal
from pathlib import Path

from spotrun.cli.main import main
from spotrun.cli.output import Output
from spotrun.images.manifest import PhaseRecord

_FAULT = Path("/etc/fault")


def _strike(place: str) -> None:
    if _FAULT.exists() and _FAULT.read_text() == place:
        _FAULT.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


class _Killed(Output):
    def begin(self, phase: str) -> None:
        """Die when a phase has been announced in the journal."""
        _strike(f"{phase}:begin")

    def end(self, record: PhaseRecord) -> None:
        """Die when a phase is done and the journal does not say so yet."""
        _strike(f"{record.name}:end")


if __name__ == "__main__":
    main(output=_Killed)
