"""What a host tells Prometheus of its jobs, in the text exposition format 0.0.4.

It is told by what lies on the host: no store is asked, so that it costs nothing and never waits.
https://prometheus.io/docs/instrumenting/exposition_formats
"""

import math
import socket
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, Final

from spotrun import __version__
from spotrun.images.errors import HostUnfit, SpotrunError
from spotrun.runtime import fence, forecast, jobs, listing, supervising, unsent
from spotrun.runtime.host import Host
from spotrun.runtime.jobs import Job, Place
from spotrun.runtime.standing import Standing

NOTICES: Final = (30, 120)
"""Seconds that clouds leave."""
CONTENT: Final = "text/plain; version=0.0.4; charset=utf-8"
_UP: Final = {"running", "paused"}
"""States of a container; the latter is also one that is just being saved."""
_ID: Final = "%Y%m%dT%H%M%SZ"
"""How the id of a snapshot begins."""
_PATIENCE: Final = 10.0
"""Seconds for a client to say what it wants."""
_IN_HELP: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_IN_LABELS: Final = _IN_HELP | str.maketrans({'"': r"\""})


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Metric:
    """A gauge with all its values."""

    name: str
    help: str
    samples: list[Sample] = field(default_factory=list)


_HELP: Final = {
    "build_info": "Always 1; the version of spotrun.",
    "job_up": "Whether the job's container runs; none if its engine does not answer.",
    "job_supervised": "Whether somebody looks after the job.",
    "job_epoch": "Grows whenever the job begins or goes on somewhere, and with each lease.",
    "job_snapshot_timestamp_seconds": "When the job was as its newest snapshot has it.",
    "job_snapshot_age_seconds": "Seconds since then: the work that would be lost now.",
    "job_snapshot_interval_seconds": "Seconds from one snapshot to the next.",
    "job_next_snapshot_timestamp_seconds": "When the next snapshot is due.",
    "job_saving": "Whether a snapshot is being made.",
    "job_leaving": "Whether a notice stands that this host will go.",
    "job_last_snapshot_seconds": "Seconds that must be left for a last snapshot of that kind.",
    "job_forecast_snapshots": "Earlier snapshots by which that is told; 0: it is a guess.",
    "job_fits": "Whether a live snapshot fits into a notice of so many seconds.",
    "job_lease_seconds": "Seconds until the job is frozen, unless its lease is renewed.",
    "job_unsent_snapshots": "Snapshots that wait on this host since their store did not take them.",
}


def collect(host: Host) -> list[Metric]:
    """Return all metrics that have values now."""
    found: dict[str, list[Sample]] = defaultdict(list)

    def tell(name: str, value: float, **labels: str) -> None:
        found[name].append(Sample(labels, float(value)))

    tell("build_info", 1, version=__version__)
    looked_after = {row.job: row for row in supervising.rows(host, ())}
    states = {row.job: row.status for row in listing.jobs_here(host, every=False)}
    waiting = [it.job for it in unsent.records(host)]
    records = jobs.all_records(host.paths)
    here = [it for it in records if it.name in states and it.place is Place.HERE]
    for it in here:
        state, told = states[it.name], looked_after.get(it.name)
        if not state.startswith("unknown"):
            tell("job_up", state in _UP, job=it.name)
        tell("job_supervised", told is not None, job=it.name)
        tell("job_epoch", it.epoch, job=it.name)
        said = told.standing if told else None
        saved = _saved(it, said)
        if saved:
            age = (host.clock.now() - saved).total_seconds()
            tell("job_snapshot_timestamp_seconds", saved.timestamp(), job=it.name)
            tell("job_snapshot_age_seconds", max(0.0, age), job=it.name)
        left = fence.left(host.paths, it.name)
        if left != math.inf:
            tell("job_lease_seconds", max(0.0, left), job=it.name)
        if said:
            _standing(it.name, said, tell)
    for job in dict.fromkeys([*(it.name for it in here), *waiting]):
        tell("job_unsent_snapshots", waiting.count(job), job=job)
    named = ((name, said, found[name]) for name, said in _HELP.items())
    return [Metric(f"spotrun_{name}", said, samples) for name, said, samples in named if samples]


def text(metrics: Sequence[Metric]) -> str:
    """Return them as Prometheus reads them."""
    lines = []
    for it in metrics:
        lines += [f"# HELP {it.name} {it.help.translate(_IN_HELP)}", f"# TYPE {it.name} gauge"]
        lines += [f"{it.name}{_labels(one.labels)} {_number(one.value)}" for one in it.samples]
    return "".join(f"{line}\n" for line in lines)


def server(place: tuple[str, int], told: Callable[[], str]) -> "Server":
    """Return what listens there and answers GET /metrics; HostUnfit: it cannot listen."""

    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE
        server_version, sys_version = "spotrun", ""

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(HTTPStatus.NOT_FOUND, "there is only /metrics")
                return
            try:
                body = told().encode()
            except (SpotrunError, OSError) as error:
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=str(error))
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Do not tell of every request."""

    try:
        family, _, _, _, address = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)[0]
        return Server(family, address, Handler)
    except OSError as error:
        raise HostUnfit(message=f"{place[0]}:{place[1]} cannot be listened on: {error}") from error


class Server(ThreadingTCPServer):
    """What HTTPServer is, but for IPv6 too, and without asking for its own name."""

    allow_reuse_address = daemon_threads = True

    def __init__(
        self, family: int, address: tuple[Any, ...], handler: type[BaseHTTPRequestHandler]
    ) -> None:
        """Listen."""
        self.address_family = family
        super().__init__(address[:2], handler)


def _saved(job: Job, said: Standing | None) -> datetime | None:
    """Return when what the newest snapshot has was there; None: there is none."""
    if said:
        return datetime.fromisoformat(said.saved) if said.saved else None
    return datetime.strptime(job.parent[:16], _ID).replace(tzinfo=UTC) if job.parent else None


def _standing(job: str, it: Standing, tell: Callable[..., None]) -> None:
    """Tell what its supervisor says."""
    tell("job_snapshot_interval_seconds", it.interval, job=job)
    due = datetime.fromisoformat(it.next).timestamp()
    tell("job_next_snapshot_timestamp_seconds", due, job=job)
    tell("job_saving", it.saving, job=job)
    tell("job_leaving", it.leaving is not None, job=job)
    needed = {"live": it.forecast.seconds, "files": it.forecast.files_seconds}
    for kind, seconds in needed.items():
        tell("job_last_snapshot_seconds", forecast.needed(seconds), job=job, kind=kind)
    tell("job_forecast_snapshots", it.forecast.basis, job=job)
    for left in NOTICES:
        tell("job_fits", forecast.fits(it.forecast, left), job=job, notice=str(left))


def _labels(labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{name}="{it.translate(_IN_LABELS)}"' for name, it in labels.items())
    return f"{{{inner}}}" if inner else ""


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
