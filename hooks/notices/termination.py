"""Metadata services that tell one thing: the time at which this instance is taken away."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from spotrun.hooks.notices.metadata import NoAnswer, Questions, Reply
from spotrun.hooks.notices.notice import Kind, NothingToAcknowledge, Notice

_META: Final = "/latest/meta-data"


class TerminationTime(NothingToAcknowledge):
    """A `termination-time`, as Alibaba and Tencent have it."""

    interval: Final = 5.0

    def __init__(
        self,
        name: str,
        find: Callable[[str], Reply | None],
        *,
        instances: str,
        key: str,
        read: Callable[[str], datetime],
        zone: str = "",
    ) -> None:
        """Look for `key` by `find`, where the ids of instances begin so; people are told `zone`."""
        self.name: Final = name
        self._find = find
        self._instances = instances
        self._key = key
        self._read = read
        self._zone = zone
        self._questions = Questions(self._termination)

    def probe(self) -> bool:
        """Return whether this host has the id of an instance."""
        try:
            reply = self._find(f"{_META}/instance-id")
        except NoAnswer:
            return False
        return reply is not None and reply.text.startswith(self._instances)

    def poll(self, patience: float) -> tuple[Notice, ...] | None:  # noqa: ARG002
        """Ask when this instance is taken away."""
        return self._questions.ask()

    def _termination(self) -> Iterator[Notice]:
        reply = self._find(f"{_META}/{self._key}")
        if reply is None:
            return
        when = reply.text.strip()
        deadline = reply.deadline(self._read, when)
        if deadline is None:
            raise NoAnswer
        yield Notice(
            self.name,
            Kind.TERMINATE,
            event=when,
            words=f"termination-time: {when}{self._zone}",
            order=True,
            deadline=deadline,
        )
