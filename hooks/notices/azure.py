"""Notices of Azure, by the Scheduled Events of its metadata service.

Page "Azure Metadata Service: Scheduled Events for Linux VMs" of the Azure documentation.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from spotrun.hooks.notices import times
from spotrun.hooks.notices.metadata import (
    LINK_LOCAL,
    Metadata,
    NoAnswer,
    Questions,
    Reply,
    found,
)
from spotrun.hooks.notices.notice import Kind, Notice

SERVICE: Final = Metadata(LINK_LOCAL)
_EVENTS: Final = "/metadata/scheduledevents?api-version=2020-07-01"
_COMPUTE: Final = "/metadata/instance/compute?api-version=2021-02-01"
_HEADERS: Final = {"Metadata": "true"}
_FIRST: Final = 120.0
"""Seconds that the first answer may take, for that request turns the service on."""
_TYPES: Final = {
    "Preempt": (Kind.PREEMPT, True),
    "Terminate": (Kind.TERMINATE, True),
    "Reboot": (Kind.REBOOT, True),
    "Redeploy": (Kind.MAINTENANCE, True),
    "Freeze": (Kind.MAINTENANCE, False),
}
"""What a type of event means, and whether it is an order."""


class _Compute(msgspec.Struct, rename="camel"):
    name: str
    vm_id: str


class _Event(msgspec.Struct, rename="pascal"):
    event_id: str
    event_type: str
    event_status: str
    resources: list[str]
    not_before: str = ""
    description: str | None = None


class _Events(msgspec.Struct, rename="pascal"):
    events: list[_Event]


class Azure:
    """Azure's events for this VM; those of others in its set are none of ours."""

    name: Final = "azure"
    interval: Final = 1.0

    def __init__(self, metadata: Metadata = SERVICE) -> None:
        """Ask that service."""
        self._metadata = metadata
        self._vm: str | None = None
        self._first = _FIRST
        self._questions = Questions(self._notices)

    def probe(self) -> bool:
        """Return whether it tells this VM's name."""
        try:
            return bool(self._name())
        except NoAnswer:
            return False

    def poll(self, patience: float) -> tuple[Notice, ...] | None:  # noqa: ARG002
        """Ask for the events."""
        return self._questions.ask()

    def acknowledge(self, notice: Notice) -> None:
        """Let the event start, if it still waits and concerns no VM but this one."""
        try:
            for event in self._read()[1]:
                mine = [it.casefold() for it in event.resources] == [self._name()]
                if event.event_id == notice.event and event.event_status == "Scheduled" and mine:
                    self._start(event)
        except NoAnswer:
            return

    def _notices(self) -> Iterator[Notice]:
        reply, events = self._read()
        for event in events:
            if self._name() in [it.casefold() for it in event.resources]:
                yield self._notice(event, reply)

    def _notice(self, event: _Event, reply: Reply) -> Notice:
        kind, order = _TYPES.get(event.event_type, (Kind.MAINTENANCE, False))
        started = event.event_status == "Started"
        when = "now" if started else f"not before {event.not_before}"
        return Notice(
            self.name,
            kind,
            event=event.event_id,
            words=f"{event.event_type} {when}: {event.description or ''}",
            order=order,
            deadline=reply.asked if started else reply.deadline(times.rfc1123, event.not_before),
        )

    def _read(self) -> tuple[Reply, list[_Event]]:
        reply = found(self._metadata.ask(_EVENTS, _HEADERS, patience=self._first))
        if reply is None:
            raise NoAnswer
        self._first = 0.0
        return reply, reply.document(_Events).events

    def _start(self, event: _Event) -> None:
        body = msgspec.json.encode({"StartRequests": [{"EventId": event.event_id}]}).decode()
        self._metadata.ask(_EVENTS, _HEADERS, method="POST", body=body)

    def _name(self) -> str:
        if self._vm is None:
            reply = found(self._metadata.ask(_COMPUTE, _HEADERS))
            if reply is None:
                raise NoAnswer
            self._vm = reply.document(_Compute).name.casefold()
        return self._vm
