"""A migration tells how far it has come, and sends no more than the target lacks."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from spotrun.images.manifest import PhaseRecord
from spotrun.images.process import Completed
from spotrun.runtime import jobs, migrate
from tests.fakes.living import JOB, Living, LivingRunner

_TARGET = "ssh://root@host-b"
_WRAPPED = 10_000
"""Bytes that a stream has, some beside those of packs."""


class _Target(LivingRunner):
    """Answers for a host that has some of the packs, and another store."""

    def __init__(self, *, has_all: bool) -> None:
        """Have all packs or none."""
        super().__init__()
        self._has_all = has_all
        self._packs: list[str] = []

    def run(self, argv: Sequence[str], **given: Any) -> Completed:  # noqa: ANN401 # any argument
        """Remember which packs it was asked for."""
        if "lacks" in argv[-1].split():
            self._packs = json.loads(given["stdin"])
        return super().run(argv, **given)

    def _answer(self, argv: Sequence[str]) -> Completed:
        if argv[:2] == ["tar", "--create"]:
            return Completed(0, "x" * _WRAPPED)
        if argv[0] != "ssh":
            return super()._answer(argv)
        answers = {
            "admit": {"refusals": [], "has_image": True, "layers": [], "sees_store": False},
            "lacks": [] if self._has_all else self._packs,
            "restore": {"phases": []},
        }
        data = next((it for verb, it in answers.items() if verb in argv[-1].split()), None)
        return Completed(0, json.dumps({"status": "success", "data": data, "errors": []}))


@pytest.mark.parametrize("has_all", [False, True])
def test_send_is_told_as_it_goes(here: Living, *, has_all: bool) -> None:
    """What the target has already is saved, and needs no time."""
    host = replace(here.host, runner=_Target(has_all=has_all))
    here.begin(store=host.own_store)
    migrate.migrate(host, JOB, target=_TARGET, observer=here.listener)
    assert here.record.place is jobs.Place.MOVED
    (told,) = [progress for phase, progress in here.listener.told if phase == "send"]
    (ended,) = [record for record in here.listener.ended if record.name == "send"]
    assert told.done == told.total > 0
    assert (told.moved, told.given) == ((0, told.total) if has_all else (told.total, 0))
    assert ended == PhaseRecord("send", ended.seconds, told.moved)
