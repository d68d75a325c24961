"""`spotrun agent`: who listens to the clouds for all jobs of a host."""

import signal
from contextlib import ExitStack

import click

from spotrun.cli.common import open_host, output, seconds
from spotrun.hooks.notices.clouds import clouds
from spotrun.hooks.notices.command import Command
from spotrun.hooks.notices.notice import NoticeSource
from spotrun.hooks.notices.signals import heeded
from spotrun.hooks.notices.watch import Watcher, probe_all
from spotrun.runtime import agent
from spotrun.runtime.host import Host


@click.command("agent")
@click.option("--notice-command", metavar="COMMAND", help="ends with 0 when this host will go")
@click.option(
    "--grace", metavar="TIME", callback=seconds, help="from SIGTERM to the end, at a shutdown"
)
def command(notice_command: str | None, grace: float | None) -> None:
    """Listen to this host's cloud for all its jobs, and share the time of a notice among them.

    SIGTERM ends it; while systemd shuts the host down, it is a notice.
    """
    host = open_host()
    with ExitStack() as held:
        held.enter_context(agent.serving(host))
        named = [Command(notice_command, host.runner)] if notice_command else []
        sources: list[NoticeSource] = [*named, *probe_all(clouds())]
        names = ", ".join(it.name for it in sources) or "nobody"
        output().note(f"listening to {names}")
        _listen(host, sources, grace)


def _listen(host: Host, sources: list[NoticeSource], grace: float | None) -> None:
    with heeded(signal.SIGTERM, grace=grace) as heard, Watcher([heard, *sources]) as watcher:
        agent.listen(host, watcher, output())
