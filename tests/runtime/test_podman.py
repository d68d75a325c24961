"""What Podman says of a container, read as what became of it."""

import os
from datetime import datetime
from pathlib import Path

import pytest

from spotrun.runtime.podman import exit_code

_FIRST, _EARLY, _LATE, _LAST = (f"2026-12-03T09:26:52.{it}Z" for it in range(4))


@pytest.mark.parametrize(
    ("status", "started", "finished", "conmon", "expected"),
    [
        pytest.param("exited", _EARLY, _LATE, _FIRST, 7, id="ended"),
        pytest.param("exited", _LATE, _EARLY, _FIRST, 7, id="ended before its start was noted"),
        pytest.param("exited", _EARLY, _LATE, None, 7, id="ended before a power cut"),
        pytest.param("exited", _LATE, _EARLY, None, 255, id="ended by a power cut"),
        pytest.param("exited", _LATE, _EARLY, _LAST, 255, id="and could not be started again"),
        pytest.param("running", _LATE, _EARLY, _FIRST, 7, id="runs again"),
    ],
)
def test_only_what_a_power_cut_ended_has_no_code_of_its_own(
    tmp_path: Path, *, status: str, started: str, finished: str, conmon: str | None, expected: int
) -> None:
    """Podman shows the code of an earlier run for it."""
    identity = tmp_path / "conmon.pid"
    if conmon:
        identity.write_text("1")
        at = datetime.fromisoformat(conmon).timestamp()
        os.utime(identity, (at, at))
    state = {"Status": status, "StartedAt": started, "FinishedAt": finished, "ExitCode": 7}
    assert exit_code({"State": state, "ConmonPidFile": str(identity)}) == expected
