"""A terminal on a lab host, with a command in its foreground."""

import os
import select
import subprocess
import time
from collections.abc import Mapping

from tests.lab.host import Host

_PYTHON = "/opt/spotrun/venv/bin/python"
_SPAWN = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
_RESIZE = """
import fcntl, struct, sys, termios
columns, rows = map(int, sys.argv[1:])
with open("/dev/pts/0") as terminal:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
"""
_SIZED = 'stty cols "$1" rows "$2"; shift 2; exec "$@"'


class Terminal:
    """Runs one command; what it shows is kept in `shown`."""

    def __init__(
        self,
        host: Host,
        *argv: str,
        size: tuple[int, int] = (100, 30),
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start it in a terminal of so many columns and rows."""
        self.shown = ""
        self._host = host
        sized = ["sh", "-c", _SIZED, "sh", *map(str, size), *argv]
        self._process = host.popen([_PYTHON, "-c", _SPAWN, *sized], stdin=subprocess.PIPE, env=env)

    def type(self, keys: str) -> None:
        """Write at once."""
        assert self._process.stdin is not None
        os.write(self._process.stdin.fileno(), keys.encode())

    def press(self, keys: str) -> None:
        """Press one key after the other, as Podman expects it of detach keys."""
        for key in keys:
            time.sleep(0.2)
            self.type(key)

    def wait_for(self, text: str, *, seconds: float = 30) -> None:
        """Wait until it has shown that, and forget all up to there."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} in {self.shown!r}"
            assert self._read(left), f"it ended without {text!r}: {self.shown!r}"
        self.shown = self.shown.partition(text)[2]

    def resize(self, columns: int, rows: int) -> None:
        """Make the window as large; it must be the only one of its host."""
        # at once: stty would do one after the other, of which the second can go unnoticed
        self._host.run([_PYTHON, "-c", _RESIZE, str(columns), str(rows)])

    def end(self, *, seconds: float = 30) -> int:
        """Wait until the command has ended, and return its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(max(0.0, deadline - time.monotonic())):
            assert time.monotonic() < deadline, self.shown
        with self._process as process:
            return process.wait(10)

    def _read(self, seconds: float) -> bool:
        """Take what comes next within the time; tell whether there may be more."""
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        if not select.select([output], [], [], seconds)[0]:
            return True
        raw = os.read(output, 65536)
        self.shown += raw.decode(errors="replace")
        return bool(raw)
