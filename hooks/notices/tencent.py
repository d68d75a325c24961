"""Notices of Tencent Cloud CVM, by its metadata service.

Page "Querying spot instance repossession status" (213/32487) of the CVM documentation.
"""

from collections.abc import Iterator
from typing import Final

from spotrun.hooks.notices import times
from spotrun.hooks.notices.metadata import Metadata, NoAnswer, Questions, Reply, found
from spotrun.hooks.notices.notice import Kind, NothingToAcknowledge, Notice

SERVICE: Final = Metadata("metadata.tencentyun.com")


class Tencent(NothingToAcknowledge):
    """When a spot instance is taken back."""

    name: Final = "tencent"
    interval: Final = 5.0

    def __init__(self, metadata: Metadata = SERVICE) -> None:
        """Ask that service."""
        self._metadata = metadata
        self._questions = Questions(self._repossession)

    def probe(self) -> bool:
        """Return whether this host has the id of an instance."""
        try:
            reply = self._find("instance-id")
        except NoAnswer:
            return False
        return reply is not None and reply.text.startswith("ins-")

    def poll(self, patience: float) -> tuple[Notice, ...] | None:  # noqa: ARG002
        """Ask when this instance is taken back."""
        return self._questions.ask()

    def _repossession(self) -> Iterator[Notice]:
        reply = self._find("spot/termination-time")
        if reply is None:
            return
        when = reply.text.strip()
        deadline = reply.deadline(times.beijing, when)
        if deadline is None:
            raise NoAnswer
        yield Notice(
            self.name,
            Kind.TERMINATE,
            event=when,
            words=f"termination-time: {when} (UTC+8)",
            order=True,
            deadline=deadline,
        )

    def _find(self, key: str) -> Reply | None:
        return found(self._metadata.ask(f"/latest/meta-data/{key}", {}))
