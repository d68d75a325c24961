"""What Alibaba and Tencent tell, and what becomes of it."""

import pytest

from spotrun.hooks.notices.alibaba import Alibaba
from spotrun.hooks.notices.metadata import Metadata
from spotrun.hooks.notices.notice import Kind, NoticeSource
from spotrun.hooks.notices.tencent import Tencent
from tests.fakes.metadata import AlibabaCloud, Service, TencentCloud
from tests.fakes.web import Answer, Web


def test_release_by_alibaba_is_an_order() -> None:
    """At an instant in UTC; the text is the event."""
    cloud = AlibabaCloud()
    cloud.release = "2015-01-05T18:02:00Z"
    with Service(cloud) as service:
        (notice,) = Alibaba(Metadata(service.address)).poll(0) or ()
    assert (notice.kind, notice.order, notice.left()) == (Kind.TERMINATE, True, 0)
    assert notice.event == "2015-01-05T18:02:00Z"


def test_expired_token_of_alibaba_is_replaced() -> None:
    """Nothing is missed meanwhile."""
    cloud = AlibabaCloud()
    with Service(cloud) as service:
        source = Alibaba(Metadata(service.address))
        assert source.poll(0) == ()
        cloud.tokens.expire()
        cloud.announce(300)
        assert source.poll(0)
    assert cloud.tokens.given == 2


def test_repossession_by_tencent_is_an_order() -> None:
    """Which it is in the time of Beijing is told to people, too."""
    cloud = TencentCloud()
    cloud.announce(120)
    with Service(cloud) as service:
        (notice,) = Tencent(Metadata(service.address)).poll(0) or ()
    assert (notice.kind, notice.order) == (Kind.TERMINATE, True)
    assert notice.left() == pytest.approx(120, abs=2)
    assert "UTC+8" in notice.words


@pytest.mark.parametrize("make", [Alibaba, Tencent])
def test_somebody_who_says_yes_to_all_is_neither(make: type[Alibaba | Tencent]) -> None:
    """And gives no notice."""
    with Web(lambda _: Answer(200, b"<html>hello</html>")) as web:
        source: NoticeSource = make(Metadata(web.name))
        assert not source.probe()
        assert source.poll(0) is None
