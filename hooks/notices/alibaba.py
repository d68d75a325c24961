"""Notices of Alibaba Cloud ECS, by its metadata service.

Page "Best practices for preemptible instances" of the ECS documentation.
"""

from typing import Final

from spotrun.hooks.notices import times
from spotrun.hooks.notices.metadata import Guarded, Metadata
from spotrun.hooks.notices.termination import TerminationTime

SERVICE: Final = Metadata("100.100.100.200")


class Alibaba(TerminationTime):
    """When a preemptible instance is released."""

    def __init__(self, metadata: Metadata = SERVICE) -> None:
        """Ask that service, which gives tokens."""
        super().__init__(
            "alibaba",
            Guarded(metadata, "X-aliyun-ecs-metadata-token").find,
            instances="i-",
            key="instance/spot/termination-time",
            read=times.rfc3339,
        )
