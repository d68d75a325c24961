"""What EC2 tells, and what becomes of it."""

import json
from collections.abc import Iterator

import pytest

from spotrun.hooks.notices.aws import Aws
from spotrun.hooks.notices.metadata import Metadata
from spotrun.hooks.notices.notice import Kind, Notice
from tests.fakes.metadata import AwsCloud, Service
from tests.fakes.web import Answer, Request, Web


@pytest.fixture
def cloud() -> AwsCloud:
    """Give an instance that nothing awaits."""
    return AwsCloud()


@pytest.fixture
def service(cloud: AwsCloud) -> Iterator[Service]:
    """Serve it."""
    with Service(cloud) as service:
        yield service


@pytest.fixture
def aws(service: Service) -> Aws:
    """Give a source that asks it."""
    return Aws(Metadata(service.address))


def _only(aws: Aws) -> Notice:
    (notice,) = aws.poll(0) or ()
    return notice


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        ("stop", Kind.STOP),
        ("terminate", Kind.TERMINATE),
        ("hibernate", Kind.HIBERNATE),
        ("something-new", Kind.PREEMPT),
    ],
)
def test_interruption_is_an_order(cloud: AwsCloud, aws: Aws, action: str, kind: Kind) -> None:
    """Whatever is done with the instance, even what AWS has not thought of yet."""
    cloud.interrupt(action, 120)
    notice = _only(aws)
    assert (notice.kind, notice.order) == (kind, True)
    assert notice.left() == pytest.approx(120, abs=2)
    assert action in notice.words


def test_deadline_that_is_past_leaves_nothing(cloud: AwsCloud, aws: Aws) -> None:
    """It is a notice all the same."""
    cloud.interrupt("terminate", -60)
    assert _only(aws).left() == 0


@pytest.mark.parametrize("told", ['{"action": "stop"}', '{"action": "stop", "time": "soon"}'])
def test_interruption_without_a_time_has_no_deadline(cloud: AwsCloud, aws: Aws, told: str) -> None:
    """The action alone is reason enough to go."""
    cloud.values["spot/instance-action"] = told
    notice = _only(aws)
    assert (notice.kind, notice.left()) == (Kind.STOP, None)


def test_rebalance_is_advice(cloud: AwsCloud, aws: Aws) -> None:
    """Its time is when it was given, not when anything ends."""
    told = {"noticeTime": "2020-10-27T08:22:00Z"}
    cloud.values["events/recommendations/rebalance"] = json.dumps(told)
    notice = _only(aws)
    assert (notice.kind, notice.order, notice.deadline) == (Kind.REBALANCE, False, None)


def test_interruption_after_a_rebalance_is_another_event(cloud: AwsCloud, aws: Aws) -> None:
    """Both stand."""
    told = {"noticeTime": "2020-10-27T08:22:00Z"}
    cloud.values["events/recommendations/rebalance"] = json.dumps(told)
    cloud.announce(120)
    notices = aws.poll(0) or ()
    assert {it.kind for it in notices} == {Kind.REBALANCE, Kind.TERMINATE}
    assert len({it.event for it in notices}) == 2


@pytest.mark.parametrize(("state", "told"), [("InService", 0), ("Terminated", 1), ("", 0)])
def test_only_the_end_of_the_lifecycle_matters(
    cloud: AwsCloud, aws: Aws, state: str, told: int
) -> None:
    """The group does not say when."""
    cloud.values["autoscaling/target-lifecycle-state"] = state
    notices = aws.poll(0) or ()
    assert [(it.kind, it.order, it.deadline) for it in notices] == [
        (Kind.TERMINATE, True, None)
    ] * told


def _maintain(cloud: AwsCloud, code: str, state: str = "active") -> None:
    event = {
        "NotBefore": "21 Jan 2019 09:00:43 GMT",
        "Code": code,
        "Description": "scheduled reboot",
        "EventId": "instance-event-0d59937288b749b32",
        "NotAfter": "21 Jan 2019 09:17:23 GMT",
        "State": state,
    }
    cloud.values["events/maintenance/scheduled"] = json.dumps([event])


@pytest.mark.parametrize(
    ("code", "kind", "order"),
    [
        ("system-reboot", Kind.REBOOT, True),
        ("instance-reboot", Kind.REBOOT, True),
        ("instance-stop", Kind.STOP, True),
        ("instance-retirement", Kind.TERMINATE, True),
        ("system-maintenance", Kind.MAINTENANCE, False),
    ],
)
def test_maintenance_is_an_order_if_it_costs_the_memory(
    cloud: AwsCloud, aws: Aws, code: str, kind: Kind, *, order: bool
) -> None:
    """Its date is read, though no other of AWS's dates looks like it."""
    _maintain(cloud, code)
    notice = _only(aws)
    assert (notice.kind, notice.order, notice.left()) == (kind, order, 0)
    assert notice.event == "instance-event-0d59937288b749b32"


@pytest.mark.parametrize("state", ["canceled", "completed"])
def test_maintenance_that_is_over_is_no_notice(cloud: AwsCloud, aws: Aws, state: str) -> None:
    """It stays in the list for a while."""
    _maintain(cloud, "system-reboot", state)
    assert aws.poll(0) == ()


def test_token_is_asked_for_once(cloud: AwsCloud, aws: Aws) -> None:
    """It is good for many polls."""
    for _ in range(3):
        aws.poll(0)
    assert cloud.tokens.given == 1


def test_expired_token_is_replaced_once(cloud: AwsCloud, aws: Aws) -> None:
    """Nothing is missed meanwhile."""
    aws.poll(0)
    cloud.tokens.expire()
    cloud.announce(120)
    assert _only(aws).order
    assert cloud.tokens.given == 2


def test_service_that_refuses_each_token_is_not_asked_for_ever() -> None:
    """One new token a question, and then it has no answer."""

    def refuse(request: Request) -> Answer:
        return Answer(200, b"token") if request.method == "PUT" else Answer(401)

    with Web(refuse) as web:
        assert Aws(Metadata(web.name)).poll(0) is None
        assert len(web.requests) == 4 * 3 + 1


def test_silence_about_one_thing_hides_no_other(cloud: AwsCloud, aws: Aws) -> None:
    """What was said about it before stands."""
    told = {"noticeTime": "2020-10-27T08:22:00Z"}
    cloud.values["events/recommendations/rebalance"] = json.dumps(told)
    assert _only(aws).kind is Kind.REBALANCE
    cloud.values["events/recommendations/rebalance"] = "{"
    cloud.announce(120)
    assert [it.kind for it in aws.poll(0) or ()] == [Kind.REBALANCE, Kind.TERMINATE]


@pytest.mark.parametrize("body", [b"<html>who are you?</html>", b"", b"two\nlines"])
def test_somebody_who_says_yes_to_all_is_not_aws(body: bytes) -> None:
    """As the page for logging in to a network does."""
    with Web(lambda _: Answer(200, body)) as web:
        assert not Aws(Metadata(web.name)).probe()
