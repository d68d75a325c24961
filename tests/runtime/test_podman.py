"""What Podman says of a container, read as what became of it."""

from pathlib import Path

import pytest

from spotrun.runtime.podman import exit_code

_EARLY, _LATE = "2026-12-03T09:26:52.38Z", "2026-12-03T09:26:52.39Z"


@pytest.mark.parametrize(
    ("status", "started", "finished", "since_boot", "expected"),
    [
        pytest.param("exited", _EARLY, _LATE, True, 7, id="ended"),
        pytest.param("exited", _LATE, _EARLY, True, 7, id="ended before its start was noted"),
        pytest.param("exited", _EARLY, _LATE, False, 7, id="ended before a power cut"),
        pytest.param("exited", _LATE, _EARLY, False, 255, id="ended by a power cut"),
        pytest.param("running", _LATE, _EARLY, True, 7, id="runs again"),
    ],
)
def test_only_what_a_power_cut_ended_has_no_code_of_its_own(
    tmp_path: Path, *, status: str, started: str, finished: str, since_boot: bool, expected: int
) -> None:
    """Podman shows the code of an earlier run for it."""
    conmon = tmp_path / "conmon.pid"
    if since_boot:
        conmon.write_text("1")
    state = {"Status": status, "StartedAt": started, "FinishedAt": finished, "ExitCode": 7}
    assert exit_code({"State": state, "ConmonPidFile": str(conmon)}) == expected
