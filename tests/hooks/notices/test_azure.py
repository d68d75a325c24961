"""What Azure tells, and which events are approved."""

from collections.abc import Iterator

import pytest

from spotrun.hooks.notices.azure import Azure
from spotrun.hooks.notices.metadata import Metadata
from spotrun.hooks.notices.notice import Kind, Notice
from tests.fakes.metadata import AzureCloud, Service
from tests.fakes.web import Answer, Web


@pytest.fixture
def cloud() -> AzureCloud:
    """Give a VM that nothing awaits."""
    return AzureCloud()


@pytest.fixture
def service(cloud: AzureCloud) -> Iterator[Service]:
    """Serve it."""
    with Service(cloud) as service:
        yield service


@pytest.fixture
def azure(service: Service) -> Azure:
    """Give a source that asks it."""
    return Azure(Metadata(service.address))


def _only(azure: Azure) -> Notice:
    (notice,) = azure.poll(0) or ()
    return notice


@pytest.mark.parametrize(
    ("told", "kind", "order"),
    [
        ("Preempt", Kind.PREEMPT, True),
        ("Terminate", Kind.TERMINATE, True),
        ("Reboot", Kind.REBOOT, True),
        ("Redeploy", Kind.MAINTENANCE, True),
        ("Freeze", Kind.MAINTENANCE, False),
        ("Something", Kind.MAINTENANCE, False),
    ],
)
def test_event_is_an_order_if_it_costs_the_memory(
    cloud: AzureCloud, azure: Azure, told: str, kind: Kind, *, order: bool
) -> None:
    """A freeze of some seconds does not."""
    cloud.events.append(cloud.event(told, 900))
    notice = _only(azure)
    assert (notice.kind, notice.order) == (kind, order)
    assert notice.left() == pytest.approx(900, abs=2)
    assert "what Azure says" in notice.words


def test_event_that_has_started_leaves_nothing(cloud: AzureCloud, azure: Azure) -> None:
    """Its time is blank then; it is the same event."""
    cloud.events.append(cloud.event("Preempt", 30))
    event = _only(azure).event
    cloud.events[0] |= {"EventStatus": "Started", "NotBefore": ""}
    notice = _only(azure)
    assert (notice.event, notice.left()) == (event, 0)


def test_event_of_another_vm_is_none_of_ours(cloud: AzureCloud, azure: Azure) -> None:
    """All VMs of a set hear of each other's."""
    cloud.events.append(cloud.event("Preempt", 30, "train_1"))
    assert azure.poll(0) == ()


@pytest.mark.parametrize("vms", [("TRAIN_0",), ("train_1", "train_0")])
def test_event_of_this_vm_is_found(cloud: AzureCloud, azure: Azure, vms: tuple[str, ...]) -> None:
    """Among others, and however its name is written."""
    cloud.events.append(cloud.event("Reboot", 900, *vms))
    assert _only(azure).kind is Kind.REBOOT


def test_event_of_this_vm_alone_is_approved(cloud: AzureCloud, azure: Azure) -> None:
    """When told to, and not before."""
    cloud.events += [cloud.event("Reboot", 900, "train_1"), cloud.event("Preempt", 30)]
    cloud.events[1]["EventId"] = "mine"
    notice = _only(azure)
    assert cloud.started == []
    azure.acknowledge(notice)
    assert cloud.started == ["mine"]


def test_event_of_several_vms_is_never_approved(cloud: AzureCloud, azure: Azure) -> None:
    """The others may need the time."""
    cloud.events.append(cloud.event("Reboot", 900, "train_0", "train_1"))
    azure.acknowledge(_only(azure))
    assert cloud.started == []


def test_event_that_others_have_joined_is_not_approved(cloud: AzureCloud, azure: Azure) -> None:
    """What counts is whom it concerns now."""
    cloud.events.append(cloud.event("Reboot", 900))
    notice = _only(azure)
    cloud.events[0]["Resources"] = ["train_0", "train_1"]
    azure.acknowledge(notice)
    assert cloud.started == []


def test_event_that_started_or_went_away_is_not_approved(cloud: AzureCloud, azure: Azure) -> None:
    """There is nothing to wait for."""
    cloud.events.append(cloud.event("Preempt", 30))
    notice = _only(azure)
    cloud.events[0]["EventStatus"] = "Started"
    azure.acknowledge(notice)
    cloud.events.clear()
    azure.acknowledge(notice)
    assert cloud.started == []


def test_first_answer_may_take_long(cloud: AzureCloud, service: Service) -> None:
    """The request for it turns the service on; later ones have the usual time."""
    azure = Azure(Metadata(service.address, timeout=0.05))
    cloud.first = 0.1
    assert azure.poll(0) == ()
    cloud.first = 0.1
    assert azure.poll(0) is None


def test_vm_is_asked_for_its_name_once(service: Service, azure: Azure) -> None:
    """It does not change while it runs."""
    azure.probe()
    for _ in range(3):
        azure.poll(0)
    assert [it.path.partition("?")[0] for it in service.requests] == [
        "/metadata/instance/compute",
        *["/metadata/scheduledevents"] * 3,
    ]


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"name": "", "vmId": "1"}'])
def test_somebody_who_says_yes_to_all_is_not_azure(body: bytes) -> None:
    """Azure knows the VM by name."""
    with Web(lambda _: Answer(200, body)) as web:
        assert not Azure(Metadata(web.name)).probe()
