"""A short life with one event of each kind; `make chaos` is the long one."""

import pytest

from tests.chaos.events import Kind, drawn
from tests.chaos.life import live
from tests.chaos.verdict import faults, summary
from tests.chaos.watch import Watch, running
from tests.conftest import Hosts
from tests.e2e.spot import until
from tests.lab.images import name
from tests.lab.lab import Lab

_SEED = 5


def test_same_seed_draws_the_same_events() -> None:
    """And each kind comes as often as any other."""
    events = drawn(7, 3 * len(Kind))
    assert events == drawn(7, 3 * len(Kind))
    assert events != drawn(8, 3 * len(Kind))
    assert sorted(it.kind for it in events) == sorted(3 * list(Kind))


@pytest.mark.lab
def test_two_copies_that_run_at_once_are_seen(hosts: Hosts) -> None:
    """One of two that is frozen does not run."""
    pair = hosts(2)
    for host in pair:
        host.run(["podman", "run", "-d", "--name=it", name("busybox"), "sleep", "1000"])
    with Watch(pair, print) as watch:
        until(lambda: watch.twice, seconds=5)
    pair[1].run(["podman", "pause", "it"])
    assert [it.host for it in running(pair)] == [pair[0].name]


@pytest.mark.lab
@pytest.mark.slow
def test_job_comes_through_one_event_of_each_kind(lab: Lab) -> None:
    """Bit-identical, never twice at once, and with no more lost than between two snapshots."""
    outcome = live(lab, _SEED, drawn(_SEED, len(Kind)), print)
    assert faults(outcome) == [], summary(outcome)
