"""What Compute Engine tells, and what becomes of it."""

import threading
import time
from collections.abc import Iterator

import pytest

from spotrun.hooks.notices.gcp import Gcp
from spotrun.hooks.notices.metadata import Metadata
from spotrun.hooks.notices.notice import Kind
from tests.fakes.metadata import GcpCloud, Service, Trouble
from tests.fakes.web import Answer, Web


@pytest.fixture
def cloud() -> GcpCloud:
    """Give a VM that nothing awaits."""
    return GcpCloud()


@pytest.fixture
def service(cloud: GcpCloud) -> Iterator[Service]:
    """Serve it."""
    with Service(cloud) as service:
        yield service


@pytest.fixture
def gcp(service: Service) -> Gcp:
    """Give a source that asks it."""
    return Gcp(Metadata(service.address))


def test_preemption_ends_the_wait(cloud: GcpCloud, gcp: Gcp) -> None:
    """The second poll hangs until there is news."""
    assert gcp.poll(10) == ()
    threading.Timer(0.05, cloud.announce, (30,)).start()
    started = time.monotonic()
    (notice,) = gcp.poll(10) or ()
    assert 0.04 < time.monotonic() - started < 5
    assert (notice.kind, notice.order) == (Kind.PREEMPT, True)


def test_wait_without_news_ends_in_time(cloud: GcpCloud, service: Service, gcp: Gcp) -> None:
    """The service is told how long it may take; the first poll does not wait."""
    cloud.longest = 0.02
    assert gcp.poll(10) == ()
    assert "wait_for_change" not in service.requests[-1].path
    assert gcp.poll(7.5) == ()
    assert "wait_for_change=true" in service.requests[-1].path
    assert "timeout_sec=7" in service.requests[-1].path


def test_service_in_trouble_is_not_waited_for(service: Service, gcp: Gcp) -> None:
    """Nor when it is back, for it may have forgotten what it was to tell."""
    gcp.poll(0)
    service.trouble = Trouble.UNAVAILABLE
    assert gcp.poll(10) is None
    service.trouble = None
    assert gcp.poll(10) == ()
    assert "wait_for_change" not in service.requests[-1].path


@pytest.mark.parametrize(
    ("told", "order", "seconds"),
    [
        ("TERMINATE_ON_HOST_MAINTENANCE", True, 3600),
        ("MIGRATE_ON_HOST_MAINTENANCE", False, 60),
    ],
)
def test_maintenance_is_an_order_if_the_host_is_ended(
    cloud: GcpCloud, gcp: Gcp, told: str, seconds: float, *, order: bool
) -> None:
    """A live migration is a pause, and advice."""
    cloud.values["maintenance-event"] = told
    (notice,) = gcp.poll(0) or ()
    assert (notice.kind, notice.order) == (Kind.MAINTENANCE, order)
    assert notice.left() == pytest.approx(seconds, abs=2)
    cloud.values["maintenance-event"] = "NONE"
    assert gcp.poll(0) == ()


def test_somebody_who_says_yes_to_all_is_not_google() -> None:
    """Google says who it is in a header."""
    with Web(lambda _: Answer(200, b"TRUE")) as web:
        source = Gcp(Metadata(web.name))
        assert not source.probe()
        assert source.poll(0) is None
