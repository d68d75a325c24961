"""Which GPUs a user asks for, as the names that CDI gives them.

docker's own ways are not for jobs: `--gpus` and NVIDIA's OCI runtime make mounts behind the back of
runc, which CRIU then does not know. Both engines take CDI's names as `--device`.
"""

import csv
import re
from typing import Final

from spotrun.images.errors import UsageError

_KIND: Final = "nvidia.com/gpu"
"""The kind of device that `nvidia-ctk cdi generate` describes."""
_KEYS: Final = frozenset(("driver", "count", "device", "capabilities", "options"))


def requested(request: str) -> list[str]:
    """Return the devices that a value of `--gpus` asks for.

    It is a line of comma-separated values like `device=0` or a bare count (docker/cli,
    opts/gpus.go); a count means the first ones (moby, daemon/nvidia_linux.go).
    """
    asked = _fields(request)
    if asked.get("driver", "nvidia") not in {"", "nvidia"}:
        raise _senseless(request, "only NVIDIA's GPUs can be asked for")
    if "device" not in asked:
        return _first(request, asked.get("count", "1"))
    if "count" in asked:
        why = """it has a count and devices; a list of devices is written '"device=0,2"'"""
        raise _senseless(request, why)
    return _named(asked["device"].split(","))


def visible(value: str) -> list[str]:
    """Return the devices that NVIDIA's OCI runtime gives for NVIDIA_VISIBLE_DEVICES."""
    return [] if value in {"", "none", "void"} else _named(value.split(","))


def _fields(request: str) -> dict[str, str]:
    try:
        fields = next(csv.reader([request], strict=True), [])
    except csv.Error as error:
        raise _senseless(request, str(error)) from error
    asked: dict[str, str] = {}
    for field in fields:
        name, equals, value = field.partition("=")
        key, value = (name, value) if equals else ("count", name)
        if key not in _KEYS or key in asked:
            raise _senseless(request, f"{key!r} is unknown or there twice")
        asked[key] = value
    if not asked:
        raise _senseless(request, "say how many, or all")
    return asked


def _first(request: str, count: str) -> list[str]:
    number = "-1" if count == "all" else count
    if not re.fullmatch(r"[+-]?\d+", number, re.ASCII):
        raise _senseless(request, f"{count!r} is no number")
    return _named(["all"] if int(number) < 0 else [str(index) for index in range(int(number))])


def _named(devices: list[str]) -> list[str]:
    return [f"{_KIND}={device}" for device in devices]


def _senseless(request: str, why: str) -> UsageError:
    return UsageError(message=f"--gpus={request}: {why}")
