"""runc as the OCI runtime."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spotrun.images.errors import OciError
from spotrun.images.process import Completed, Runner
from spotrun.runtime import criu
from spotrun.runtime.oci import DumpOptions

_MESSAGE: Final = re.compile(r'msg="((?:[^"\\]|\\.)*)"')


class Runc:
    """runc, with the state folder that the engine gives it."""

    def __init__(self, runner: Runner, *, root: Path) -> None:
        """Use the containers under `root`, which each engine has of its own."""
        self._runner = runner
        self._root = root

    def version(self) -> str:
        """Return like `runc 1.1.15`."""
        from spotrun.runtime import facts

        found = facts.runc_version(self._runner)
        if found is None:
            raise OciError(action="asking runc for its version", reason="it does not start")
        return f"runc {found}"

    def status(self, container: str) -> str | None:
        """Ask runc; it knows a container from its create to its delete."""
        done = self._runner.run(["runc", "--root", str(self._root), "state", container])
        if done.status != 0:
            return None
        return str(json.loads(done.stdout)["status"])

    def freeze(self, container: str) -> None:
        """Freeze by the cgroup freezer; what is frozen already is asked for only then."""
        done = self._try("pause", container)
        if done.status != 0 and self.status(container) != "paused":
            raise OciError(action="freezing", reason=_message(done.stderr))

    def thaw(self, container: str) -> None:
        """Thaw what is frozen; all else makes runc fail, and is looked at only then."""
        done = self._try("resume", container)
        if done.status != 0 and self.status(container) == "paused":
            raise OciError(action="thawing", reason=_message(done.stderr))

    def dump(self, container: str, options: DumpOptions, pass_fds: Sequence[int] = ()) -> None:
        """Let CRIU write the images; on failure say what its log says first."""
        options.criu_config.write_text(criu.config(options.external))
        argv = ["checkpoint", "--leave-running", "--image-path", str(options.images)]
        argv += ["--work-path", str(options.work), container]
        done = self._runner.run(["runc", "--root", str(self._root), *argv], pass_fds=pass_fds)
        if done.status != 0:
            log = options.work / "dump.log"
            reason = criu.cause(log) or _message(done.stderr)
            raise OciError(action="dumping the processes", reason=reason, log=log)

    def processes(self, container: str) -> list[int]:
        """Return what is in the container's cgroup."""
        listed = self._call("listing processes", "ps", "--format", "json", container)
        return [int(pid) for pid in json.loads(listed) or []]

    def _try(self, *arguments: str) -> Completed:
        return self._runner.run(["runc", "--root", str(self._root), *arguments])

    def _call(self, action: str, *arguments: str) -> str:
        done = self._try(*arguments)
        if done.status != 0:
            raise OciError(action=action, reason=_message(done.stderr))
        return done.stdout


def _message(stderr: str) -> str:
    """Return the message in runc's last log line, which reads `time="…" level=error msg="…"`."""
    last = stderr.strip().rpartition("\n")[2]
    found = _MESSAGE.search(last)
    said = re.sub(r"\\(.)", r"\1", found[1]) if found else last
    return said or "it said nothing"
