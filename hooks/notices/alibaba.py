"""Notices of Alibaba Cloud ECS, by its metadata service.

Page "Best practices for preemptible instances" of the ECS documentation.
"""

from collections.abc import Iterator
from typing import Final

from spotrun.hooks.notices import times
from spotrun.hooks.notices.metadata import Guarded, Metadata, NoAnswer, Questions
from spotrun.hooks.notices.notice import Kind, NothingToAcknowledge, Notice

SERVICE: Final = Metadata("100.100.100.200")
_META: Final = "/latest/meta-data"


class Alibaba(NothingToAcknowledge):
    """When a preemptible instance is released."""

    name: Final = "alibaba"
    interval: Final = 5.0

    def __init__(self, metadata: Metadata = SERVICE) -> None:
        """Ask that service."""
        self._ecs = Guarded(metadata, "X-aliyun-ecs-metadata-token")
        self._questions = Questions(self._release)

    def probe(self) -> bool:
        """Return whether it gives tokens, and this host has the id of an instance."""
        try:
            reply = self._ecs.find(f"{_META}/instance-id")
        except NoAnswer:
            return False
        return reply is not None and reply.text.startswith("i-")

    def poll(self, patience: float) -> tuple[Notice, ...] | None:  # noqa: ARG002
        """Ask when this instance is released."""
        return self._questions.ask()

    def _release(self) -> Iterator[Notice]:
        reply = self._ecs.find(f"{_META}/instance/spot/termination-time")
        if reply is None:
            return
        when = reply.text.strip()
        deadline = reply.deadline(times.rfc3339, when)
        if deadline is None:
            raise NoAnswer
        yield Notice(
            self.name,
            Kind.TERMINATE,
            event=when,
            words=f"termination-time: {when}",
            order=True,
            deadline=deadline,
        )
