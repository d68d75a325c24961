"""What every OCI runtime does to a running container, given by its id.

The container has two processes; `folder` is empty and may be filled. They run on the in-memory
runtime here and, through `on_host`, on a real one on a lab host.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from spotrun.images.errors import OciError
from spotrun.runtime.oci import DumpOptions, OciRuntime

COMMAND = ("sh", "-c", "tail -f /dev/null & wait")
"""What the container must run; BusyBox' `sleep` would end early, as CRIU interrupts its call."""
PROCESSES = 2
"""How many it has then, before a behaviour begins."""


def criu_config(folder: Path) -> Path:
    """Return the CRIU configuration file that the container's annotation must name."""
    return folder / "criu.conf"


def version_has_a_name_and_a_number(oci: OciRuntime, container: str, folder: Path) -> None:  # noqa: ARG001
    """It is what a manifest records and another host compares."""
    assert re.fullmatch(r"[a-z]+ \d+\.\d+\S*", oci.version())


def running_container_is_known(oci: OciRuntime, container: str, folder: Path) -> None:  # noqa: ARG001
    """One that was never made has no status."""
    assert oci.status(container) == "running"
    assert oci.status("absent") is None


def frozen_container_can_be_frozen_again(oci: OciRuntime, container: str, folder: Path) -> None:  # noqa: ARG001
    """It stays as it is."""
    for _ in range(2):
        oci.freeze(container)
        assert oci.status(container) == "paused"
    oci.thaw(container)


def running_container_can_be_thawed_again(oci: OciRuntime, container: str, folder: Path) -> None:  # noqa: ARG001
    """It goes on, and so does one that was never frozen."""
    oci.thaw(container)
    oci.freeze(container)
    for _ in range(2):
        oci.thaw(container)
        assert oci.status(container) == "running"


def missing_container_is_left_alone_or_refused(
    oci: OciRuntime,
    container: str,  # noqa: ARG001
    folder: Path,
) -> None:
    """Thawing it is no error; all else is."""
    oci.thaw("absent")
    _refused(lambda: oci.freeze("absent"))
    _refused(lambda: oci.processes("absent"))
    _refused(lambda: oci.dump("absent", _options(folder)))


def all_processes_are_listed(oci: OciRuntime, container: str, folder: Path) -> None:  # noqa: ARG001
    """Also while they are frozen."""
    running = sorted(oci.processes(container))
    assert len(set(running)) == 2
    oci.freeze(container)
    assert sorted(oci.processes(container)) == running
    oci.thaw(container)


def dumped_container_stays_frozen(oci: OciRuntime, container: str, folder: Path) -> None:
    """Its images are written, and it can go on."""
    options, before = _options(folder), oci.processes(container)
    oci.freeze(container)
    oci.dump(container, options)
    assert oci.status(container) == "paused"
    assert any(path.name.startswith("pages-") for path in options.images.iterdir())
    oci.thaw(container)
    assert oci.status(container) == "running", oci.status(container)
    assert oci.processes(container) == before


def failed_dump_leaves_the_container_frozen(oci: OciRuntime, container: str, folder: Path) -> None:
    """It can go on as if nothing had been."""
    options, before = _options(folder), oci.processes(container)
    options.images.rmdir()
    options.images.write_text("no folder")
    oci.freeze(container)
    _refused(lambda: oci.dump(container, options))
    assert oci.status(container) == "paused"
    oci.thaw(container)
    assert oci.status(container) == "running"
    assert oci.processes(container) == before


def _options(folder: Path) -> DumpOptions:
    options = DumpOptions(folder / "images", folder / "work", criu_config(folder))
    for made in (options.images, options.work):
        made.mkdir(exist_ok=True)
    return options


def _refused(call: Callable[[], Any]) -> None:
    """Prove that a call raises OciError, with a cause."""
    with suppress(OciError):
        try:
            call()
        except OciError as error:
            assert str(error.fields["reason"]).strip(), error
            raise
        raise AssertionError("it was not refused")
