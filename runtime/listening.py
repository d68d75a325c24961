"""Who gives notice to a job's supervisor, and how it hears of it."""

import threading
from collections.abc import Callable

from spotrun.hooks.notices.clouds import clouds
from spotrun.hooks.notices.command import Command
from spotrun.hooks.notices.file import File
from spotrun.hooks.notices.notice import NoticeSource
from spotrun.hooks.notices.signals import Signals
from spotrun.hooks.notices.watch import News, Watcher, probe_all
from spotrun.runtime import agent, jobs
from spotrun.runtime.host import Host


def sources(host: Host, job: str, heard: Signals) -> list[NoticeSource]:
    """Return who gives notice; of the clouds, the host's agent tells if there is one."""
    record = jobs.load(host.paths, job)
    command = record.care.notice_command if record and record.care else None
    named = [Command(command, host.runner)] if command else []
    here = [] if agent.alive(host.paths) else probe_all(clouds())
    return [heard, File(host.paths.notices / job), *named, *here]


def pass_on(watcher: Watcher, tell: Callable[[News], None]) -> None:
    """Have all news told, from a thread."""

    def listen() -> None:
        while news := watcher.wait():
            tell(news)

    threading.Thread(target=listen, name="notices", daemon=True).start()
