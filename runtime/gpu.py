"""The GPU seam: device memory is moved into the processes before CRIU looks at them."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from spotrun.images.errors import NotCapturable


class GpuDriver(Protocol):
    """The checkpoint interface of one GPU driver.

    Callers may rely on: after `suspend` no process of the container holds a device, or an
    error was raised and every process goes on computing; `resume` may be called in any state.
    """

    def suspend(self, job: str, pids: Sequence[int]) -> None:
        """Move device memory of these processes into host memory."""
        ...

    def resume(self, pids: Sequence[int]) -> None:
        """Give these processes their device memory back."""
        ...


def _open_files(pid: int) -> list[str]:
    """Return what a process has open; nothing if it has ended."""
    found = []
    with suppress(OSError):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.append(str(fd.readlink()))
    return found


class NoGpu:
    """For hosts without a driver: proves that no process holds a device."""

    def suspend(self, job: str, pids: Sequence[int]) -> None:
        """Refuse when a process has an NVIDIA device open."""
        for pid in pids:
            for target in _open_files(pid):
                if target.startswith("/dev/nvidia"):
                    reason = f"process {pid} holds {target}; GPU memory is not supported yet"
                    raise NotCapturable(job=job, reason=reason)

    def resume(self, pids: Sequence[int]) -> None:
        """Do nothing: nothing was suspended."""
