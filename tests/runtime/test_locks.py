"""One spotrun at a time works on a job."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spotrun.images.errors import JobBusy
from spotrun.runtime import locks
from tests.fakes.snapshots import NOW

_SECONDS, _A_WHILE = 5.0, 0.1
_HOLD_WITH_A_CHILD = """
import subprocess, sys
from datetime import UTC, datetime
from pathlib import Path
from spotrun.runtime import locks
with locks.hold(Path(sys.argv[1]), "job", "migrate", datetime.now(UTC), wait=False) as lock:
    child = subprocess.Popen(
        ["sleep", "60"], pass_fds=(lock.fd,) if sys.argv[2] == "pass" else (),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    print(child.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Give a thread in which an attempt may wait."""
    with ThreadPoolExecutor(1) as made:
        yield made


def _busy(folder: Path, job: str = "job") -> bool:
    """Tell whether somebody holds the job."""
    try:
        with locks.hold(folder, job, "try", NOW, wait=False):
            return False
    except JobBusy:
        return True


def test_busy_job_is_refused_with_who_holds_it(tmp_path: Path) -> None:
    """Process, verb and the time it began are named."""
    with (
        locks.hold(tmp_path, "job", "checkpoint", NOW, wait=False),
        pytest.raises(JobBusy) as refused,
        locks.hold(tmp_path, "job", "migrate", NOW, wait=False),
    ):
        pass
    assert str(refused.value) == (
        f"job 'job' is busy: pid {os.getpid()} has been at 'checkpoint'"
        " since 2026-12-01T10:00:00+00:00"
    )


def test_shorter_entry_of_a_later_holder_is_read_whole(tmp_path: Path) -> None:
    """Nothing of the earlier one is left in the file."""
    with locks.hold(tmp_path, "job", "checkpoint --leave-running", NOW, wait=False):
        pass
    with locks.hold(tmp_path, "job", "ps", NOW, wait=False):
        with pytest.raises(JobBusy) as refused, locks.hold(tmp_path, "job", "x", NOW, wait=False):
            pass
        assert refused.value.fields["verb"] == "ps"


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_lock_ends_with_the_work(tmp_path: Path, error: type[BaseException] | None) -> None:
    """However the work ends."""
    try:
        with locks.hold(tmp_path, "job", "checkpoint", NOW, wait=False):
            assert _busy(tmp_path)
            if error:
                raise error
    except (ValueError, KeyboardInterrupt):
        pass
    assert not _busy(tmp_path)


def test_jobs_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Each has a lock of its own."""
    with locks.hold(tmp_path, "one", "checkpoint", NOW, wait=False):
        assert _busy(tmp_path, "one")
        assert not _busy(tmp_path, "two")


def test_holder_that_has_not_written_down_its_name_is_busy_all_the_same(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    """What is not known is shown as such, and nobody waits for it."""
    with locks.hold(tmp_path, "job", "checkpoint", NOW, wait=False) as lock:
        os.ftruncate(lock.fd, 0)
        error = pool.submit(_attempt, tmp_path, wait=False).exception(_SECONDS)
    assert isinstance(error, JobBusy)
    assert error.fields == {"job": "job", "pid": "?", "verb": "?", "since": "?"}


def test_waiting_ends_with_the_holder(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """A target that is asked how its restore went answers when it knows."""
    with locks.hold(tmp_path, "job", "restore", NOW, wait=False):
        waiting = pool.submit(_attempt, tmp_path, wait=True)
        with pytest.raises(TimeoutError):
            waiting.result(_A_WHILE)
    waiting.result(_SECONDS)


def test_lock_outlives_a_killed_holder_in_children_that_got_it(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    """No one thaws a container while the dead holder's CRIU is still dumping it."""
    child = _killed_holder(tmp_path, "pass")
    try:
        waiting = pool.submit(_attempt, tmp_path, wait=False)
        with pytest.raises(TimeoutError):
            waiting.result(_A_WHILE)
    finally:
        os.kill(child, signal.SIGKILL)
    waiting.result(_SECONDS)


def test_lock_of_a_killed_holder_ends_in_spite_of_other_children(tmp_path: Path) -> None:
    """Only children that got it on purpose hold it."""
    child = _killed_holder(tmp_path, "keep")
    try:
        assert not _busy(tmp_path)
    finally:
        os.kill(child, signal.SIGKILL)


def _killed_holder(folder: Path, passed: str) -> int:
    """Let a process hold the job's lock and start a child, and kill it; return the child."""
    argv = [sys.executable, "-c", _HOLD_WITH_A_CHILD, str(folder), passed]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        holder.kill()
    return child


def _attempt(folder: Path, *, wait: bool) -> None:
    with locks.hold(folder, "job", "try", NOW, wait=wait):
        pass
