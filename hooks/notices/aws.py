"""Notices of Amazon EC2, by its instance metadata service (IMDSv2).

Pages of the EC2 user guide: "Spot Instance interruption notices", "EC2 instance rebalance
recommendations", "Scheduled events for your instances"; of the Auto Scaling user guide: "Retrieve
the target lifecycle state through instance metadata".
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from spotrun.hooks.notices import times
from spotrun.hooks.notices.metadata import LINK_LOCAL, Guarded, Metadata, NoAnswer, Questions
from spotrun.hooks.notices.notice import Kind, NothingToAcknowledge, Notice

SERVICE: Final = Metadata(LINK_LOCAL)
_META: Final = "/latest/meta-data"
_ACTIONS: Final = {
    "stop": Kind.STOP,
    "terminate": Kind.TERMINATE,
    "hibernate": Kind.HIBERNATE,
}
_CODES: Final = {
    "instance-stop": Kind.STOP,
    "instance-retirement": Kind.TERMINATE,
    "instance-reboot": Kind.REBOOT,
    "system-reboot": Kind.REBOOT,
}


class _Action(msgspec.Struct):
    action: str
    time: str = ""


class _Rebalance(msgspec.Struct):
    noticeTime: str  # noqa: N815 # AWS's name


class _Maintenance(msgspec.Struct, rename="pascal"):
    code: str
    event_id: str
    not_before: str
    description: str | None = None
    state: str = "active"


class Aws(NothingToAcknowledge):
    """EC2's own notices."""

    name: Final = "aws"
    interval: Final = 5.0

    def __init__(self, metadata: Metadata = SERVICE) -> None:
        """Ask that service."""
        self._imds = Guarded(metadata, "X-aws-ec2-metadata-token")
        self._questions = Questions(
            self._maintenance, self._rebalance, self._lifecycle, self._interruption
        )

    def probe(self) -> bool:
        """Return whether it gives tokens, and this host has the id of an instance."""
        try:
            reply = self._imds.find(f"{_META}/instance-id")
        except NoAnswer:
            return False
        return reply is not None and reply.text.startswith("i-")

    def poll(self, patience: float) -> tuple[Notice, ...] | None:  # noqa: ARG002
        """Ask for everything that EC2 tells."""
        return self._questions.ask()

    def _interruption(self) -> Iterator[Notice]:
        reply = self._imds.find(f"{_META}/spot/instance-action")
        if reply is None:
            return
        told = reply.document(_Action)
        yield Notice(
            self.name,
            _ACTIONS.get(told.action, Kind.PREEMPT),
            event=f"instance-action {told.action} {told.time}",
            words=f"instance-action: {told.action} at {told.time}",
            order=True,
            deadline=reply.deadline(times.rfc3339, told.time),
        )

    def _rebalance(self) -> Iterator[Notice]:
        reply = self._imds.find(f"{_META}/events/recommendations/rebalance")
        if reply is None:
            return
        when = reply.document(_Rebalance).noticeTime
        yield Notice(
            self.name,
            Kind.REBALANCE,
            event=f"rebalance {when}",
            words=f"rebalance recommendation of {when}",
            order=False,
        )

    def _lifecycle(self) -> Iterator[Notice]:
        reply = self._imds.find(f"{_META}/autoscaling/target-lifecycle-state")
        if reply is not None and reply.text.strip() == "Terminated":
            yield Notice(
                self.name,
                Kind.TERMINATE,
                event="target-lifecycle-state",
                words="target-lifecycle-state: Terminated",
                order=True,
            )

    def _maintenance(self) -> Iterator[Notice]:
        reply = self._imds.find(f"{_META}/events/maintenance/scheduled")
        if reply is None:
            return
        for told in reply.document(list[_Maintenance]):
            if told.state == "active":
                yield Notice(
                    self.name,
                    _CODES.get(told.code, Kind.MAINTENANCE),
                    event=told.event_id,
                    words=f"{told.code} not before {told.not_before}: {told.description or ''}",
                    order=told.code in _CODES,
                    deadline=reply.deadline(times.rfc1123, told.not_before),
                )
