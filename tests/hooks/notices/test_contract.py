"""Every source keeps the contract of `NoticeSource`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.suites import behaviours
from tests.hooks.notices import stages, suite
from tests.hooks.notices.stages import Stage

_EACH = pytest.mark.parametrize("behaviour", behaviours(suite), ids=lambda it: it.__name__)


@_EACH
@pytest.mark.parametrize("name", stages.CLOUDS)
def test_cloud(name: str, behaviour: Callable[[Stage], None]) -> None:
    """A cloud does, as far as its documentation tells."""
    with stages.cloud(name) as stage:
        behaviour(stage)


@_EACH
@pytest.mark.parametrize("make", [stages.command, stages.file])
def test_by_hand(
    make: Callable[[Path], Stage], behaviour: Callable[[Stage], None], tmp_path: Path
) -> None:
    """A command and a file do."""
    behaviour(make(tmp_path))


@_EACH
@pytest.mark.parametrize("make", [stages.signals, stages.scripted])
def test_without_a_service(make: Callable[[], Stage], behaviour: Callable[[Stage], None]) -> None:
    """A signal does, and what other tests run on."""
    behaviour(make())
