"""Fixtures: lab hosts for tests with the marker `lab`, servers for `s3` and `registry`."""

import os
import signal
from collections.abc import Callable, Generator, Iterator

import pytest

from tests.fakes.docker_registry import DockerRegistry
from tests.fakes.seaweed import SECRET, USER, Bucket, Seaweed
from tests.lab.cgroups import Layout
from tests.lab.host import Engine, Host
from tests.lab.images import Image, archive, name
from tests.lab.lab import Lab

Hosts = Callable[..., list[Host]]
_FIXTURES = {
    "lab": {"lab", "hosts", "pair", "docker_host", "containerd_host"},
    "s3": {"seaweed", "bucket"},
    "registry": {"docker_registry"},
}


def pytest_configure() -> None:
    """Heed signals that whoever started us in the background let us ignore: children inherit it."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            default = signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test that uses the lab or a server and lacks its marker."""
    for item in items:
        for marker, fixtures in _FIXTURES.items():
            used = fixtures.intersection(getattr(item, "fixturenames", ()))
            if used and not item.get_closest_marker(marker):
                raise pytest.UsageError(f"{item.nodeid} uses {min(used)} without `{marker}`")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the hosts have to say of a test that failed: they are gone afterwards."""
    report = yield
    lab = getattr(item, "funcargs", {}).get("lab")
    if lab and report.when == "call" and report.failed:
        report.sections += [(f"said by {it.name}", it.said()) for it in lab.hosts]
    return report


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Give an empty lab that is gone after the test."""
    yield from _lab()


@pytest.fixture
def hosts(lab: Lab) -> Hosts:
    """Give a function that boots hosts: `hosts(2)`, `hosts(1, images=())`."""

    def start(
        count: int,
        *,
        images: tuple[Image, ...] = ("busybox",),
        layout: Layout = "v2",
        engine: Engine = "podman",
        systemd: bool = False,
    ) -> list[Host]:
        return lab.start(count, images=images, layout=layout, engine=engine, systemd=systemd)

    return start


@pytest.fixture(scope="session")
def pair() -> Iterator[tuple[Host, Host]]:
    """Give the two hosts that all tests share which clean up after themselves."""
    for opened in _lab():
        first, second = opened.start(2)
        yield first, second


@pytest.fixture(params=["podman", "docker"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Give each engine in turn."""
    found: Engine = request.param
    return found


@pytest.fixture(scope="session")
def docker_host() -> Iterator[Host]:
    """Give a host with Docker that all tests share which clean up after themselves."""
    for opened in _lab():
        yield from opened.start(1, engine="docker")


@pytest.fixture(scope="session")
def containerd_host() -> Iterator[Host]:
    """Give one whose Docker keeps images and overlays in containerd."""
    for opened in _lab():
        (host,) = opened.start(1, images=())
        host.use_docker({name("busybox"): archive("busybox")}, containerd=True)
        yield host


@pytest.fixture(scope="session")
def seaweed() -> Iterator[Seaweed]:
    """Give the S3 server that all tests share."""
    with Seaweed() as server:
        yield server


@pytest.fixture(scope="session")
def docker_registry() -> Iterator[DockerRegistry]:
    """Give the registry that all tests share, each with a repository of its own."""
    with DockerRegistry() as server:
        yield server


@pytest.fixture
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide this machine's own AWS settings and credentials."""
    for variable in [it for it in os.environ if it.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    for variable in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(variable, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def bucket(seaweed: Seaweed, no_aws: None, monkeypatch: pytest.MonkeyPatch) -> Bucket:  # noqa: ARG001 # its effect
    """Give an empty place in the server's bucket, and credentials for it in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", USER)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return Bucket(seaweed)


def _lab() -> Iterator[Lab]:
    if os.geteuid() != 0:
        if "CI" in os.environ:
            pytest.fail("the lab needs root, and CI must not skip it")
        pytest.skip("the lab needs root")
    with Lab() as opened:
        yield opened
