"""The one place that starts child processes.

It lies in the lowest layer because all four folders need it.
"""

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

from spotrun.images import attached
from spotrun.images.errors import CommandFailed, ExitCode

_OF_TAR: Final = "Exiting with failure status due to previous errors"


@dataclass(frozen=True, slots=True)
class Completed:
    """What a child process left: its exit status (negative: the signal) and its output."""

    status: int
    stdout: str = ""
    stderr: str = ""

    @property
    def said(self) -> str:
        """The last line it wrote that says something, stderr before stdout."""
        for text in (self.stderr, self.stdout):
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines and _OF_TAR in lines[-1]:
                del lines[1:]  # tar goes on after its first error, and says no more than this
            if lines:
                return lines[-1]
        return "it said nothing"


def program(name: str) -> Path | None:
    """Return where a program lies, if it is in PATH; `shutil` loads three compressors first."""
    places = (Path(folder, name) for folder in os.get_exec_path())
    return next((it for it in places if os.access(it, os.X_OK) and it.is_file()), None)


class Runner(Protocol):
    """Starts child processes; the seam that tests script.

    Implementers may rely on: `argv` is never empty and never goes through a shell.
    Callers may rely on: a child gets no file descriptor but 0, 1, 2 and those in `pass_fds`,
    an attached one also what this process was given; a child whose program does not exist ends
    with status 127 and says so on stderr.
    """

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
        pass_fds: Sequence[int] = (),
        cwd: Path | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """Run to the end and return what is left; `timeout` in seconds raises TimeoutError."""
        ...

    def attach(
        self,
        argv: Sequence[str],
        *,
        silent: bool = False,
        stderr: IO[bytes] | None = None,
        on_term: Callable[[], None] | None = None,
    ) -> int:
        """Run as if it were this process, with its terminal and signals; return its status.

        It has this process's descriptors, except stdout if silent, and stderr if that is given.
        It does not get SIGTERM where that calls `on_term`.
        The status of a child that a signal ended is 128 + its number, as a shell has it.
        """
        ...

    def pipe(
        self,
        producer: Sequence[str],
        consumer: Sequence[str],
        tell: Callable[[int], None] | None = None,
    ) -> tuple[Completed, Completed]:
        """Run both to the end with the producer's stdout as the consumer's stdin.

        `tell` is told now and then, from another thread, how many bytes the producer has written.
        """
        ...

    def spawn(self, argv: Sequence[str], *, log: Path) -> int:
        """Start a process that outlives this one, output to `log`; return its pid."""
        ...


class SystemRunner:
    """Real child processes of this host."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Add `environment` to what children inherit."""
        self._environment = {**os.environ, **(environment or {})}

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
        pass_fds: Sequence[int] = (),
        cwd: Path | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """Run to the end; a string `stdin` is written to it, a file is handed over."""
        text = stdin if isinstance(stdin, str) else None
        source = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        try:
            child = subprocess.Popen(
                argv,
                stdin=source if isinstance(stdin, str | None) else stdin,
                stdout=stdout or subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                pass_fds=pass_fds,
                cwd=cwd,
                start_new_session=True,  # Ctrl-C is ours: CRIU cut off in a dump ruins the job
            )
        except OSError as error:
            return Completed(_status(error), stderr=f"{argv[0]}: {error.strerror}")
        with child:
            try:
                out, err = child.communicate(text.encode() if text is not None else None, timeout)
            except subprocess.TimeoutExpired as late:
                os.killpg(child.pid, signal.SIGKILL)  # it leads its session, and may have children
                raise TimeoutError(f"{argv[0]} took more than {timeout:g} s") from late
        return Completed(child.returncode, _text(out), _text(err))

    def attach(
        self,
        argv: Sequence[str],
        *,
        silent: bool = False,
        stderr: IO[bytes] | None = None,
        on_term: Callable[[], None] | None = None,
    ) -> int:
        """Hand over the terminal, and pass on what signals come."""
        try:
            return attached.run(
                argv, self._environment, silent=silent, stderr=stderr, on_term=on_term
            )
        except OSError as error:
            return _status(error)

    def pipe(
        self,
        producer: Sequence[str],
        consumer: Sequence[str],
        tell: Callable[[int], None] | None = None,
    ) -> tuple[Completed, Completed]:
        """Connect two children; neither's data passes through this process."""
        from tempfile import TemporaryFile

        with TemporaryFile() as said:
            try:
                first = subprocess.Popen(
                    producer,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    env=self._environment,
                )
            except OSError as error:
                missing = Completed(_status(error), stderr=f"{producer[0]}: {error.strerror}")
                return missing, self.run(consumer)
            with _watched(first.pid, tell) if tell else nullcontext():
                second = self.run(consumer, stdin=first.stdout)
            if first.stdout is not None:
                first.stdout.close()  # a consumer that ended early stops the producer by SIGPIPE
            status = first.wait()
            said.seek(0)
            return Completed(status, stderr=_text(said.read())), second

    def spawn(self, argv: Sequence[str], *, log: Path) -> int:
        """Start it in a session of its own."""
        with log.open("ab") as sink:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                env=self._environment,
            )
        child.returncode = 0  # it is not ours to wait for: no ResourceWarning at exit
        return child.pid


def _watched(pid: int, tell: Callable[[int], None]) -> AbstractContextManager[None]:
    """Tell how many bytes a child has written, which the kernel counts (proc(5))."""
    from spotrun.images.meter import often

    def look() -> None:
        with suppress(OSError):
            counts = dict(it.split(": ") for it in Path(f"/proc/{pid}/io").read_text().splitlines())
            tell(int(counts["wchar"]))

    return often(look)


def _status(error: OSError) -> int:
    """Return what a shell makes of a program that cannot be started."""
    missing = isinstance(error, FileNotFoundError)
    return ExitCode.NOT_FOUND if missing else ExitCode.CANNOT_INVOKE


def checked(completed: Completed, argv: Sequence[str]) -> Completed:
    """Return it, or raise CommandFailed with the last line the command said."""
    if completed.status != 0:
        raise CommandFailed(
            command=shlex.join(argv[:3]), status=completed.status, reason=completed.said
        )
    return completed


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode(errors="replace")
