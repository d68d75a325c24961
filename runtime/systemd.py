"""systemd, where it is the init: what looks after a job is a service of its own there.

A service outlives the session and the unit of who ran `spotrun run`, is begun again when it is
killed, and is stopped before the engines when the host shuts down.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from spotrun.images.durable import write_atomic
from spotrun.images.process import Runner

_ITS_FOLDER: Final = Path("/run/systemd/system")
"""There where systemd is the init: sd_booted(3)."""
_ENGINES: Final = "docker.service containerd.service podman.service network-online.target"
_PROPERTIES: Final = (
    "Restart=on-abnormal",
    "RestartSec=1",
    "KillMode=process",  # its word is for the supervisor, which tells the job itself
    "TimeoutStopSec=10min",
    "SuccessExitStatus=85",
    "OOMPolicy=continue",
    f"After={_ENGINES}",  # what is started after these is stopped before them
)
_OF_A_SERVICE: Final = frozenset(
    "INVOCATION_ID JOURNAL_STREAM LISTEN_FDNAMES LISTEN_FDS LISTEN_PID MAINPID MANAGERPID"
    " NOTIFY_SOCKET SYSTEMD_EXEC_PID WATCHDOG_PID WATCHDOG_USEC".split()
)
"""Variables by which systemd tells a service about itself (systemd.exec(5))."""
_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def serve(
    runner: Runner,
    unit: str,
    argv: Sequence[str],
    *,
    environment: Path,
    log: Path,
    its_folder: Path = _ITS_FOLDER,
) -> bool:
    """Start a command as a service with this process's environment; False: it is not to be had.

    The environment goes by a file, since everybody may ask for the properties of a service.
    """
    if not its_folder.is_dir():
        return False
    write_atomic(environment, os.fsencode(_assignments(os.environ)))
    properties = (
        *_PROPERTIES,
        f"EnvironmentFile={environment}",
        f"StandardOutput=append:{log}",
        f"StandardError=append:{log}",
    )
    run = ["systemd-run", "--quiet", "--collect", "--no-ask-password", "--same-dir"]
    run += [f"--unit={unit}", "--service-type=exec", *(f"--property={it}" for it in properties)]
    return runner.run([*run, "--", *argv]).status == 0


def is_service() -> bool:
    """Tell whether systemd has started this very process."""
    return os.environ.get("SYSTEMD_EXEC_PID") == str(os.getpid())


def _assignments(variables: Mapping[str, str]) -> str:
    """Return them as `EnvironmentFile=` takes them (systemd.exec(5))."""
    wanted = {
        name: re.sub(r'(["\\`$])', r"\\\1", value)
        for name, value in variables.items()
        if _NAME.fullmatch(name) and name not in _OF_A_SERVICE
    }
    return "".join(f'{name}="{value}"\n' for name, value in wanted.items())
