"""A child that takes this process's place at the terminal until it ends.

Who sends a signal means the child and knows only this process, so signals are passed on. Those
of the terminal are not: it sends them to all processes in its foreground, and so to the child.
Where SIGTERM is not for the child but news for this process, it is told of it.
"""

import os
import select
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final

_OF_THE_TERMINAL: Final = frozenset(
    (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
)
_OF_OTHERS: Final = frozenset((signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2))
_REAL_TIME: Final = frozenset(range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
_PYTHONS: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores and its children should not."""


def run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    *,
    silent: bool,
    stderr: IO[bytes] | None,
    on_term: Callable[[], None] | None = None,
) -> int:
    """Run it to its end and return its status as a shell has it, or raise OSError."""
    shared = _in_foreground()
    with _caught(_OF_THE_TERMINAL | _OF_OTHERS | _REAL_TIME) as caught:
        pid = os.posix_spawnp(
            argv[0],
            list(argv),
            environment,
            file_actions=_descriptors(silent=silent, stderr=stderr),
            setsigdef=_PYTHONS,
            # in a group of its own, or who signals our whole group would reach it twice
            setpgroup=os.getpgrp() if shared else 0,
        )
        without = _OF_THE_TERMINAL if shared else frozenset[int]()
        _pass_on(caught, pid, without=without, on_term=on_term)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if status >= 0 else 128 - status


def _in_foreground() -> bool:
    """Tell whether the terminal sends its signals to this process's group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


def _descriptors(*, silent: bool, stderr: IO[bytes] | None) -> list[tuple[Any, ...]]:
    nowhere = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    elsewhere = (os.POSIX_SPAWN_DUP2, stderr.fileno(), 2) if stderr else None
    return [it for it in (nowhere if silent else None, elsewhere) if it]


@contextmanager
def _caught(signals: frozenset[int]) -> Iterator[int]:
    """Yield a descriptor that gives the number of each signal that comes, a byte each.

    What is ignored stays so, here and in the child: nohup and `&` rely on it.
    """
    heard = [it for it in signals if signal.getsignal(it) is not signal.SIG_IGN]
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before = {it: signal.signal(it, lambda *_: None) for it in heard}
    woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(woken)
        for it, handler in before.items():
            signal.signal(it, handler)
        os.close(reader)
        os.close(writer)


def _pass_on(
    caught: int, pid: int, *, without: frozenset[int], on_term: Callable[[], None] | None
) -> None:
    """Send what is caught to the child until it ends."""
    child = os.pidfd_open(pid)
    try:
        while child not in (ready := select.select([caught, child], [], [])[0]):
            for number in os.read(caught, 4096) if ready else b"":
                if number == signal.SIGTERM and on_term:
                    on_term()
                elif number not in without:
                    signal.pidfd_send_signal(child, number)
    finally:
        os.close(child)
