"""Notices of Google Compute Engine, by its metadata server.

Pages of the Compute Engine documentation: "Spot VMs" and "Query metadata server for maintenance
event notices"; "View and query VM metadata" has the request that waits.
"""

from collections.abc import Iterator
from typing import Final

from spotrun.hooks.notices.metadata import Metadata, NoAnswer, Questions, Reply, found
from spotrun.hooks.notices.notice import Kind, NothingToAcknowledge, Notice

SERVICE: Final = Metadata("metadata.google.internal")
_INSTANCE: Final = "/computeMetadata/v1/instance"
_FLAVOR: Final = {"Metadata-Flavor": "Google"}
_PREEMPTION: Final = 30.0
"""Seconds from the notice to the end that a spot VM has at least."""
_MAINTENANCE: Final = {
    "TERMINATE_ON_HOST_MAINTENANCE": (True, 3600.0),  # only VMs with GPUs are told this
    "MIGRATE_ON_HOST_MAINTENANCE": (False, 60.0),  # a live migration: a pause
}
"""Whether it is an order, and in how many seconds."""


class Gcp(NothingToAcknowledge):
    """Compute Engine's own notices."""

    name: Final = "gcp"
    interval: Final = 1.0

    def __init__(self, metadata: Metadata = SERVICE) -> None:
        """Ask that server."""
        self._metadata = metadata
        self._patience = 0
        self._etag = ""
        self._questions = Questions(self._maintenance, self._preemption)

    def probe(self) -> bool:
        """Return whether it is Google's and tells of preemption."""
        try:
            return self._find("preempted") is not None
        except NoAnswer:
            return False

    def poll(self, patience: float) -> tuple[Notice, ...] | None:
        """Wait for a preemption, once it is known that there was none."""
        self._patience = int(patience)
        return self._questions.ask()

    def _preemption(self) -> Iterator[Notice]:
        reply = self._changed("preempted")
        told = reply.text.strip() if reply else "FALSE"
        if told not in ("TRUE", "FALSE"):
            raise NoAnswer
        if reply and told == "TRUE":
            yield Notice(
                self.name,
                Kind.PREEMPT,
                event="preempted",
                words="preempted: TRUE",
                order=True,
                deadline=reply.asked + _PREEMPTION,
            )

    def _maintenance(self) -> Iterator[Notice]:
        reply = self._find("maintenance-event")
        told = reply.text.strip() if reply else "NONE"
        if told not in ("NONE", *_MAINTENANCE):
            raise NoAnswer
        if reply and told != "NONE":
            order, seconds = _MAINTENANCE[told]
            yield Notice(
                self.name,
                Kind.MAINTENANCE,
                event=told,
                words=f"maintenance-event: {told}",
                order=order,
                deadline=reply.asked + seconds,
            )

    def _changed(self, key: str) -> Reply | None:
        """Return the value when it is another than last time, or after the time to wait."""
        etag, self._etag = self._etag, ""  # after trouble it is asked without waiting
        if etag and self._patience:
            query = f"wait_for_change=true&last_etag={etag}&timeout_sec={self._patience}"
            reply = self._find(f"{key}?{query}", patience=self._patience)
        else:
            reply = self._find(key)
        self._etag = reply.headers.get("ETag", "") if reply else ""
        return reply

    def _find(self, key: str, *, patience: float = 0) -> Reply | None:
        reply = self._metadata.ask(f"{_INSTANCE}/{key}", _FLAVOR, patience=patience)
        if reply.headers.get("Metadata-Flavor") != "Google":
            raise NoAnswer
        return found(reply)
