"""GPUs that are asked for in docker's ways have the names that CDI gives them."""

import pytest

from spotrun.images.errors import UsageError
from spotrun.runtime import cdi


@pytest.mark.parametrize(
    ("request_", "devices"),
    [
        ("all", "all"),
        ('"all"', "all"),
        ("-1", "all"),
        ("0", ""),
        ("2", "0 1"),
        ("count=2", "0 1"),
        ("count=all", "all"),
        ("device=0", "0"),
        ("device=all", "all"),
        ('"device=0,2"', "0 2"),
        ("device=GPU-3a23c669", "GPU-3a23c669"),
        ("all,capabilities=utility", "all"),
        ('"device=1,2","capabilities=compute,utility"', "1 2"),
        ("driver=nvidia,count=1", "0"),
        ("capabilities=utility", "0"),
        ('all,"options=a=b,c=d"', "all"),
    ],
)
def test_request_for_gpus_names_devices(request_: str, devices: str) -> None:
    """A count means the first ones, and no count one."""
    assert cdi.requested(request_) == [f"nvidia.com/gpu={it}" for it in devices.split()]


@pytest.mark.parametrize(
    "request_",
    ["", "some", "1.5", "device=0,2", "count=1,device=0", "all,all", "driver=amd", "x=1", '"all'],
)
def test_request_that_docker_refuses_is_refused(request_: str) -> None:
    """The sentence has the request."""
    with pytest.raises(UsageError, match=r"^--gpus="):
        cdi.requested(request_)


@pytest.mark.parametrize(
    ("value", "devices"), [("all", "all"), ("0,GPU-1", "0 GPU-1"), ("none", ""), ("", "")]
)
def test_variable_of_nvidia_names_devices(value: str, devices: str) -> None:
    """Some of its values stand for no GPU."""
    assert cdi.visible(value) == [f"nvidia.com/gpu={it}" for it in devices.split()]
