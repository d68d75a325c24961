"""The world around a source of notices, as the suite needs it."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spotrun.hooks.notices.alibaba import Alibaba
from spotrun.hooks.notices.aws import Aws
from spotrun.hooks.notices.azure import Azure
from spotrun.hooks.notices.command import Command
from spotrun.hooks.notices.file import File, give
from spotrun.hooks.notices.gcp import Gcp
from spotrun.hooks.notices.metadata import Metadata
from spotrun.hooks.notices.notice import NoticeSource
from spotrun.hooks.notices.signals import Signals
from spotrun.hooks.notices.tencent import Tencent
from spotrun.images.process import SystemRunner
from tests.fakes.metadata import (
    AlibabaCloud,
    AwsCloud,
    AzureCloud,
    Cloud,
    GcpCloud,
    Service,
    TencentCloud,
)
from tests.fakes.notices import ScriptedSource, notice

SECONDS: Final = 30
"""How long the notices of the suite are ahead."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A source, and how to make it say something."""

    source: NoticeSource
    announce: Callable[[], object]
    withdraw: Callable[[], object] | None = None
    service: Service | None = None


CLOUDS: Final[dict[str, tuple[Callable[[], Cloud], Callable[[Metadata], NoticeSource]]]] = {
    "aws": (AwsCloud, Aws),
    "gcp": (GcpCloud, Gcp),
    "azure": (AzureCloud, Azure),
    "alibaba": (AlibabaCloud, Alibaba),
    "tencent": (TencentCloud, Tencent),
}


@contextmanager
def cloud(name: str) -> Iterator[Stage]:
    """Serve a cloud on the loopback."""
    make, source = CLOUDS[name]
    with Service(make()) as service:
        yield staged(service, source(Metadata(service.address)))


def staged(service: Service, source: NoticeSource) -> Stage:
    """Return the stage of a source that asks that service."""
    told = service.cloud
    return Stage(source, lambda: told.announce(SECONDS), told.withdraw, service)


def command(folder: Path) -> Stage:
    """Run a command that looks at a file."""
    path = folder / "notice"
    source = Command(f"cat {path} 2>&1", SystemRunner())
    return Stage(source, lambda: path.write_text(f"{SECONDS}s\n"), path.unlink)


def file(folder: Path) -> Stage:
    """Look at a file."""
    path = folder / "notice"
    return Stage(File(path), lambda: give(path, SECONDS, why="test"), path.unlink)


def signals() -> Stage:
    """Take a signal, which cannot be taken back."""
    source = Signals(grace=SECONDS)
    return Stage(source, lambda: source.receive(signal.SIGTERM, None))


def scripted() -> Stage:
    """Run the fake."""
    source = ScriptedSource()

    def announce() -> None:
        source.standing = (notice(deadline=time.monotonic() + SECONDS),)

    def withdraw() -> None:
        source.standing = ()

    return Stage(source, announce, withdraw)
