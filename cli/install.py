"""`spotrun install`: the engines of this host get to know spotrun, the shells its verbs."""

from collections.abc import Iterator
from typing import Final

import click
from rich.text import Text

from spotrun.cli import reference
from spotrun.cli.common import format_option, open_host, output
from spotrun.cli.result import Result
from spotrun.runtime import registering
from spotrun.runtime.host import this_host
from spotrun.runtime.installing import Action, Change, File
from spotrun.runtime.registering import Installed, Site

_COMPLETIONS: Final = {
    "bash": "/usr/local/share/bash-completion/completions/spotrun",
    "zsh": "/usr/local/share/zsh/site-functions/_spotrun",
    "fish": "/etc/fish/completions/spotrun.fish",
}
_MAN: Final = "/usr/local/share/man/man1"
_ACTIONS: Final = {
    Action.MAKE: ("would make", "made"),
    Action.CHANGE: ("would change", "changed"),
    Action.REMOVE: ("would remove", "removed"),
    Action.LEAVE: ("would leave", "left"),
}


@click.command("install")
@click.option("--dry-run", is_flag=True, help="only show what would change")
@format_option
def command(*, dry_run: bool) -> Result:
    """Register spotrun with Docker and Podman, as far as they are on this host.

    \b
    Docker:  its OCI runtime, in daemon.json, which Docker's daemon reads again
    Podman:  its OCI runtime, in containers.conf.d, and a hook in hooks.d, by which
             a container with the annotation io.spotrun.job=NAME becomes a job

    With them come completions for the shells that are here, man pages, and, where systemd is,
    units that nobody has enabled yet. Nothing else is changed, and `spotrun uninstall` takes it
    back. After an update of spotrun, call it again.
    """  # noqa: D301 # \b keeps the table
    site = find_site(dry_run=dry_run)
    return told(registering.install(site, list(_documents(site)), dry_run=dry_run))


def find_site(*, dry_run: bool) -> Site:
    """Return this host; nothing is made on it for a dry run."""
    host = this_host() if dry_run else open_host()
    return Site(paths=host.paths, runner=host.runner, clock=host.clock)


def told(done: Installed) -> Result:
    """Return what has changed, or would."""
    for note in done.notes:
        output().note(note)
    if not done.changes:
        output().note("nothing to do")
    lines = [line for change in done.changes for line in _lines(change, dry_run=done.dry_run)]
    return Result(done, Text("\n".join(lines)) if lines else None)


def _lines(change: Change, *, dry_run: bool) -> list[str]:
    """Say what happens to a file; a diff is for who has yet to decide."""
    would, has = _ACTIONS[change.action]
    note = f" ({change.note})" if change.note else ""
    line = f"{would if dry_run else has} {change.path}{note}"
    return [line, change.diff] if dry_run and change.diff else [line]


def _documents(site: Site) -> Iterator[File]:
    for shell, path in _COMPLETIONS.items():
        if site.has(shell):
            content = reference.completion(shell).encode()
            yield File(path=site.place(path), content=content, generated=True)
    for name, page in reference.man_pages().items():
        yield File(path=site.place(f"{_MAN}/{name}"), content=page.encode(), generated=True)
