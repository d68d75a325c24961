"""Notices of Tencent Cloud CVM, by its metadata service.

Page "Querying spot instance repossession status" (213/32487) of the CVM documentation.
"""

from typing import Final

from spotrun.hooks.notices import times
from spotrun.hooks.notices.metadata import Metadata, found
from spotrun.hooks.notices.termination import TerminationTime

SERVICE: Final = Metadata("metadata.tencentyun.com")


class Tencent(TerminationTime):
    """When a spot instance is taken back."""

    def __init__(self, metadata: Metadata = SERVICE) -> None:
        """Ask that service."""
        super().__init__(
            "tencent",
            lambda path: found(metadata.ask(path, {})),
            instances="ins-",
            key="spot/termination-time",
            read=times.beijing,
            zone=" (UTC+8)",
        )
