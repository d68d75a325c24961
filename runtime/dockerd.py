"""Docker's daemon as the owner of its configuration: what it would accept, and what it has read."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from spotrun.images.errors import HostUnfit, ToolError
from spotrun.images.process import Runner
from spotrun.runtime.clock import Clock
from spotrun.runtime.engines import SOCKET

_CONFIG: Final = "--config-file"
_PATIENCE: Final = 10
"""Seconds within which it has read its configuration again."""
DOCKER: Final = ("docker", f"--host=unix://{SOCKET}")
"""Its client, whatever the environment says of other hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dockerd:
    """That of this host, running or not."""

    runner: Runner
    root: Path
    pid: int | None
    argv: tuple[str, ...]
    """How it was started."""

    @classmethod
    def find(cls, runner: Runner, root: Path = Path("/")) -> "Dockerd":
        """Look up the one that runs, if one does, by its pid file."""
        for pid_file in (root / "run/docker.pid", root / "var/run/docker.pid"):
            try:
                pid = int(pid_file.read_text())
                raw = (root / f"proc/{pid}/cmdline").read_bytes()
            except (OSError, ValueError):
                continue
            argv = tuple(raw.decode(errors="replace").removesuffix("\0").split("\0"))
            if Path(argv[0]).name == "dockerd":
                return cls(runner=runner, root=root, pid=pid, argv=argv)
        return cls(runner=runner, root=root, pid=None, argv=("dockerd",))

    @property
    def config(self) -> Path:
        """The file that it is configured by."""
        given = "/etc/docker/daemon.json"
        for at, word in enumerate(self.argv):
            if word == _CONFIG:
                given = self.argv[at + 1]
            elif word.startswith(f"{_CONFIG}="):
                given = word.partition("=")[2]
        return self.root / given.lstrip("/")

    def check(self, content: bytes) -> None:
        """Raise HostUnfit if it would not take that content.

        With its own flags: dockerd does not start when a flag and the file say the same.
        """
        with NamedTemporaryFile(prefix="spotrun-", suffix=".json") as draft:
            draft.write(content)
            draft.flush()
            done = self.runner.run([*self.argv, "--validate", f"{_CONFIG}={draft.name}"])
        if done.status != 0:
            reason = done.said.replace(draft.name, str(self.config))
            raise HostUnfit(message=f"dockerd would not take {self.config}: {reason}")

    def runtimes(self) -> dict[str, str] | None:
        """Return the OCI runtimes that it knows, with their paths; None: it does not answer."""
        done = self.runner.run([*DOCKER, "info", "--format", "{{json .Runtimes}}"])
        if done.status != 0:
            return None
        return {name: it.get("path", "") for name, it in json.loads(done.stdout).items()}

    def reload(self, runtime: str, path: str | None, clock: Clock) -> None:
        """Let it read its configuration again, and see that it knows the runtime as it should."""
        self.runner.run(["kill", "-HUP", str(self.pid)])
        deadline = clock.monotonic() + _PATIENCE
        while clock.monotonic() < deadline:
            found = self.runtimes()
            if found is not None and found.get(runtime) == path:
                return
            time.sleep(0.1)
        raise ToolError(message="dockerd has not taken its new configuration: its log says why")
