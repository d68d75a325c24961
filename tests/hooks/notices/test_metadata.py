"""What counts as an answer of a metadata service."""

import time
from collections.abc import Callable

import pytest

from spotrun.hooks.notices import times
from spotrun.hooks.notices.metadata import Metadata, NoAnswer, found
from spotrun.hooks.notices.tencent import Tencent
from tests.fakes.metadata import Service, TencentCloud, Trouble
from tests.fakes.web import Answer, Request, Web


def _ask(answer: Callable[[Request], Answer], timeout: float = 1) -> str:
    with Web(answer) as web:
        reply = found(Metadata(web.name, timeout).ask("/", {}))
        assert reply
        return reply.text


def test_proxies_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says: what a proxy tells is of another machine."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert _ask(lambda _: Answer(200, b"direct")) == "direct"


@pytest.mark.parametrize("status", [301, 302, 400, 401, 403, 410, 429, 500, 503])
def test_other_status_is_no_answer(status: int) -> None:
    """A redirect is not followed: it leads away from the service."""
    with pytest.raises(NoAnswer):
        _ask(lambda _: Answer(status, b"x", {"Location": "/other"}))


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"2026-12-01T10:00", claimed=20),
        Answer(200, b"", claimed=20),
        Answer(200, b"x" * (1 << 20) + b"x"),
        Answer(200, b"\xff\xfe"),
    ],
    ids=["truncated", "empty", "huge", "binary"],
)
def test_garbled_reply_is_no_answer(answer: Answer) -> None:
    """The beginning of a time would be another time."""
    with pytest.raises(NoAnswer):
        _ask(lambda _: answer)


def test_slow_service_is_no_answer() -> None:
    """It is given up after its timeout."""
    with Service(TencentCloud()) as service:
        service.trouble = Trouble.SLOW
        started = time.monotonic()
        assert Tencent(Metadata(service.address, timeout=0.05)).poll(0) is None
        assert time.monotonic() - started < 1


def test_unreachable_service_is_no_answer() -> None:
    """Nor is an address that nobody has."""
    with Web(lambda _: Answer()) as web:
        address = web.name
    with pytest.raises(NoAnswer):
        Metadata(address).ask("/", {})


@pytest.mark.parametrize("ahead", [-7200.0, 0.0, 7200.0])
def test_deadline_is_by_the_clock_of_the_service(ahead: float) -> None:
    """This host's own may be hours off."""
    with Service(TencentCloud()) as service:
        service.ahead = ahead
        service.cloud.announce(120 + ahead)
        (notice,) = Tencent(Metadata(service.address)).poll(0) or ()
        assert notice.left() == pytest.approx(120, abs=2)


def test_deadline_is_by_the_own_clock_for_want_of_another() -> None:
    """A service that tells no time is believed all the same."""
    with Service(TencentCloud()) as service:
        service.dated = False
        service.cloud.announce(120)
        (notice,) = Tencent(Metadata(service.address)).poll(0) or ()
        assert notice.left() == pytest.approx(120, abs=2)


def test_deadline_of_no_instant_is_unknown() -> None:
    """What cannot be read is not guessed."""
    with Web(lambda _: Answer()) as web:
        reply = Metadata(web.name).ask("/", {})
    assert reply.deadline(times.rfc3339, "in a while") is None
