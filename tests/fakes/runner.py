"""A scripted Runner: answers for known command lines, and a record of the calls."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from spotrun.images.process import Completed


class ScriptedRunner:
    """Answers the command lines of its script; any other one fails the test."""

    def __init__(self, script: Mapping[tuple[str, ...], Completed]) -> None:
        """Answer each whole command line of the script, as often as it comes."""
        self._script = script
        self.calls: list[tuple[str, ...]] = []

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | IO[bytes] | None = None,  # noqa: ARG002
        stdout: IO[bytes] | None = None,  # noqa: ARG002
        pass_fds: Sequence[int] = (),  # noqa: ARG002
        cwd: Path | None = None,  # noqa: ARG002
        timeout: float | None = None,  # noqa: ARG002
    ) -> Completed:
        """Return the scripted answer."""
        return self._answer(argv)

    def attach(
        self,
        argv: Sequence[str],
        *,
        silent: bool = False,  # noqa: ARG002
        stderr: IO[bytes] | None = None,  # noqa: ARG002
        on_term: Callable[[], None] | None = None,  # noqa: ARG002
    ) -> int:
        """Return the status of the scripted answer as a shell has it."""
        status = self._answer(argv).status
        return status if status >= 0 else 128 - status

    def pipe(
        self,
        producer: Sequence[str],
        consumer: Sequence[str],
        tell: Callable[[int], None] | None = None,
    ) -> tuple[Completed, Completed]:
        """Return the scripted answers of both."""
        produced = self._answer(producer)
        if tell:
            tell(len(produced.stdout))
        return produced, self._answer(consumer)

    def spawn(self, argv: Sequence[str], *, log: Path) -> int:  # noqa: ARG002
        """Start nothing; return a pid that no process has."""
        self._answer(argv)
        return 1 << 30

    def _answer(self, argv: Sequence[str]) -> Completed:
        call = tuple(argv)
        self.calls.append(call)
        assert call in self._script, f"not in the script: {call}"
        return self._script[call]
