"""The agent of a host: it hears of notices for all jobs at once, and shares the time among them.

Without an agent each supervisor listens for itself, and all save at once, whoever has most to lose.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from time import monotonic, sleep
from typing import Final

from spotrun.hooks.notices import file
from spotrun.hooks.notices.notice import Notice
from spotrun.hooks.notices.signals import Signals
from spotrun.hooks.notices.watch import Watcher, Withdrawn
from spotrun.runtime import commands, forecast, locks, supervising
from spotrun.runtime.host import Host
from spotrun.runtime.locks import JobLock
from spotrun.runtime.paths import Paths
from spotrun.runtime.supervising import Row
from spotrun.runtime.transaction import Observer

_LOCK: Final = "~agent"
"""No job has such a name."""
GRACE: Final = 30.0
"""Seconds that a notice without a deadline is taken to leave; clouds promise no less."""
FAR: Final = 300.0
"""A deadline that is further away is not left for yet, but for a snapshot now."""
_PAUSE: Final = 0.2
_OVER: Final = 60.0
"""Seconds past the deadline in which a host that is still there is not given up."""


def alive(paths: Paths) -> bool:
    """Tell whether an agent lives on this host."""
    return locks.is_held(paths.locks, _LOCK)


def serving(host: Host) -> AbstractContextManager[JobLock]:
    """Be the agent of the host, or raise JobBusy."""
    return locks.hold(host.paths.locks, _LOCK, "agent", host.clock.now(), wait=False)


def listen(host: Host, watcher: Watcher, observer: Observer) -> None:
    """Pass notices on to the jobs of the host, until this process is told to end.

    That is a notice, too, if it is because the host is shut down.
    """
    while news := watcher.wait():
        ending = isinstance(news, Notice) and news.source == Signals.name
        if ending and not _is_stopping(host):
            return
        if isinstance(news, Withdrawn):
            observer.note(f"the notice by {news.notice.source} was called off")
            withdraw(host.paths)
            continue
        spread(host, news, observer)
        if ending:
            return
        if news.order and not commands.running(host):
            watcher.acknowledge(news)


def _is_stopping(host: Host) -> bool:
    """Tell whether systemd shuts this host down (systemctl(1))."""
    done = host.runner.run(["systemctl", "is-system-running"])
    return done.stdout.strip() == "stopping"


def spread(host: Host, notice: Notice, observer: Observer) -> None:
    """Have all jobs saved: all at once if there is time, else one by one.

    Who has most to lose comes first; who comes too late keeps its last snapshot.
    """
    left = notice.left()
    deadline = monotonic() + (GRACE if left is None else left)
    rows = _by_value(supervising.rows(host, ()), host.clock.now())
    observer.note(f"notice for {len(rows)} jobs, by {notice.told}")
    now = notice.order and deadline - monotonic() <= FAR
    together = sum(_needed(it) for it in rows) <= deadline - monotonic()
    for row in rows:
        _give(host.paths, row.job, notice, deadline)
        if now and not together:
            _await(host, [row], deadline)
    if now:
        _await(host, rows, deadline + _OVER)


def withdraw(paths: Paths) -> None:
    """Let all jobs stay that have not gone yet."""
    for job in supervising.jobs_here(paths):
        (paths.notices / job).unlink(missing_ok=True)


def _give(paths: Paths, job: str, notice: Notice, deadline: float) -> None:
    left, why = max(0.0, deadline - monotonic()), notice.told
    file.give(paths.notices / job, left, order=notice.order, why=why)


def _by_value(rows: Sequence[Row], now: datetime) -> list[Row]:
    """Return the jobs, first the one of which most work would be lost."""

    def at_risk(row: Row) -> float:
        saved = row.standing.saved if row.standing else None
        return (now - datetime.fromisoformat(saved)).total_seconds() if saved else float("inf")

    return sorted(rows, key=at_risk, reverse=True)


def _needed(row: Row) -> int:
    return forecast.needed(row.standing.forecast.seconds) if row.standing else 0


def _await(host: Host, rows: Sequence[Row], deadline: float) -> None:
    """Wait until these jobs have gone, or are nobody's any more."""
    names = {it.job for it in rows}
    while names & {*supervising.jobs_here(host.paths)} and monotonic() < deadline:
        sleep(_PAUSE)
