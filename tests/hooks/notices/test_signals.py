"""A signal to this process is a notice."""

import os
import signal
import threading
import time

import pytest

from spotrun.hooks.notices.notice import Kind, Notice
from spotrun.hooks.notices.signals import heeded
from spotrun.hooks.notices.watch import Watcher


def test_signal_is_an_order_to_end() -> None:
    """It is known by name; when the process is killed nobody says."""
    with heeded(signal.SIGTERM) as source:
        os.kill(os.getpid(), signal.SIGTERM)
        (notice,) = source.poll(1) or ()
    assert (notice.kind, notice.order, notice.deadline) == (Kind.SHUTDOWN, True, None)
    assert notice.words == "SIGTERM"


def test_grace_counts_from_the_signal() -> None:
    """Not from when it was asked for."""
    with heeded(signal.SIGTERM, grace=30) as source:
        before = time.monotonic()
        os.kill(os.getpid(), signal.SIGTERM)
        after = time.monotonic()
        time.sleep(0.02)
        (notice,) = source.poll(1) or ()
    assert notice.deadline is not None
    assert before <= notice.deadline - 30 <= after


def test_signal_ends_the_wait() -> None:
    """A poll that waits in another thread learns of it at once."""
    told: list[tuple[Notice, ...] | None] = []
    with heeded(signal.SIGTERM) as source:
        thread = threading.Thread(target=lambda: told.append(source.poll(10)))
        thread.start()
        os.kill(os.getpid(), signal.SIGTERM)
        thread.join(5)
    assert len(told[0] or ()) == 1


def test_watcher_that_is_waited_for_tells_of_a_signal() -> None:
    """Though the main thread, which alone handles signals, is the one that waits."""
    with heeded(signal.SIGTERM) as source, Watcher([source]) as watcher:
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGTERM)).start()
        news = watcher.wait(5)
    assert isinstance(news, Notice)
    assert news.words == "SIGTERM"


def test_second_signal_is_the_same_notice() -> None:
    """People press Ctrl-C more than once."""
    with heeded(signal.SIGTERM, signal.SIGINT) as source:
        os.kill(os.getpid(), signal.SIGINT)
        first = source.poll(1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert source.poll(1) == first
        assert source.poll(0) == first


def test_handlers_are_put_back() -> None:
    """After an error, too."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyError), heeded(signal.SIGTERM):
        raise KeyError
    assert signal.getsignal(signal.SIGTERM) == before
