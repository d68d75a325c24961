"""What Podman knows of a container and shows nobody: the `config.dump` of its archives.

It stands in Podman's database. Nothing but Podman can say what a container that it would make
from a command line is; so one is made, looked up there, and removed, without ever being started.
"""

import json
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from spotrun.images.errors import EngineError
from spotrun.images.process import Runner, checked
from spotrun.runtime import launcher
from spotrun.runtime.engine import Container
from spotrun.runtime.host import Host

_DATABASES: Final = ("db.sql", "libpod/db.sql")
"""Where the database is, relative to Podman's graph root."""
_SECONDS: Final = 30


@contextmanager
def made(host: Host, arguments: Sequence[str]) -> Iterator[Container]:
    """Make a container under a name of nobody's, and remove it in the end."""
    launcher.install(host.paths)
    name = f"spotrun-{secrets.token_hex(6)}"
    container = host.engine.create([f"--name={name}", "--pull=never", *arguments])
    try:
        found = host.engine.find(container)
        if found is None:
            raise EngineError(engine="podman", reason=f"container {name} went as it came")
        yield found
    finally:
        host.engine.remove(container)


@contextmanager
def mounted(runner: Runner, container: Container) -> Iterator[Path]:
    """Yield the container's root file system, all of it."""
    argv = ["podman", "mount", container.id]
    place = Path(checked(runner.run(argv), argv).stdout.strip())
    try:
        yield place
    finally:
        runner.run(["podman", "unmount", container.id])  # else its removal does it


def config(runner: Runner, container: str) -> dict[str, Any]:
    """Return the configuration of a container, by its id."""
    argv = ["podman", "info", "--format", "{{.Store.GraphRoot}}"]
    root = Path(checked(runner.run(argv), argv).stdout.strip())
    for path in (root / name for name in _DATABASES):
        if path.exists() and (found := _row(path, container)):
            return found
    raise EngineError(
        engine="podman",
        reason="its database cannot be read; archives need Podman 5 with its database in SQLite",
    )


def _row(database: Path, container: str) -> dict[str, Any] | None:
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", _SECONDS, uri=True)) as opened:
            row = opened.execute(
                "SELECT JSON FROM ContainerConfig WHERE ID = ?", (container,)
            ).fetchone()
    except sqlite3.Error:
        return None
    found: dict[str, Any] | None = json.loads(row[0]) if row else None
    return found
