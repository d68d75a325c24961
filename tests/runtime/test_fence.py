"""A job may run until its fence, which holds for whoever looks at it."""

import math
import os
import struct
from collections.abc import Callable

import pytest

from spotrun.images.lease import boot_time
from spotrun.runtime import fence
from spotrun.runtime.paths import Paths
from tests.fakes.living import JOB, Living


@pytest.fixture
def paths(here: Living) -> Paths:
    """Give a host's folders."""
    return here.host.paths


def test_job_without_a_fence_runs_without_end(paths: Paths) -> None:
    """Nobody looks after it, or none does any more."""
    assert fence.left(paths, JOB) == math.inf
    fence.put_off(paths, JOB, boot_time() + 60)
    fence.remove(paths, JOB)
    fence.remove(paths, JOB)
    assert fence.left(paths, JOB) == math.inf


def test_job_is_frozen_some_time_before_its_end(paths: Paths) -> None:
    """It takes a while to find it."""
    fence.put_off(paths, JOB, boot_time() + 60)
    assert fence.left(paths, JOB) == pytest.approx(60 - fence.MARGIN, abs=1)
    fence.put_off(paths, JOB, boot_time() + fence.MARGIN)
    assert fence.left(paths, JOB) <= 0


def test_closed_fence_can_be_opened_again(paths: Paths) -> None:
    """By whoever has the lease then."""
    fence.close(paths, JOB)
    assert fence.left(paths, JOB) == -math.inf
    fence.put_off(paths, JOB, boot_time() + 60)
    assert fence.left(paths, JOB) > 0


def test_fences_of_jobs_are_their_own(paths: Paths) -> None:
    """One job's end is no other's."""
    fence.close(paths, JOB)
    assert fence.left(paths, "other") == math.inf


def test_fence_is_the_same_for_all_processes(paths: Paths) -> None:
    """What the supervisor writes is what its guard reads."""
    child = os.fork()
    if child == 0:
        fence.close(paths, JOB)
        os._exit(0)
    os.waitpid(child, 0)
    assert fence.left(paths, JOB) == -math.inf


@pytest.mark.parametrize("write", [fence.close, lambda paths, job: fence.put_off(paths, job, 1e9)])
def test_fence_is_written_at_once(paths: Paths, write: Callable[[Paths, str], None]) -> None:
    """Eight bytes, in their place: who reads meanwhile sees the one time or the other."""
    fence.put_off(paths, JOB, 5e8)
    before = (paths.fences / JOB).stat().st_ino
    write(paths, JOB)
    raw = (paths.fences / JOB).read_bytes()
    assert (len(raw), (paths.fences / JOB).stat().st_ino) == (8, before)
    assert struct.unpack("<d", raw)[0] in {-math.inf, 1e9}
