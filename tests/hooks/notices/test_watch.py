"""Listening to all sources at once."""

import threading
import time
from itertools import pairwise

from spotrun.hooks.notices.aws import Aws
from spotrun.hooks.notices.azure import Azure
from spotrun.hooks.notices.clouds import clouds
from spotrun.hooks.notices.gcp import Gcp
from spotrun.hooks.notices.metadata import Metadata
from spotrun.hooks.notices.watch import Standing, Watcher, Withdrawn, probe_all
from tests.fakes.notices import ScriptedSource, notice
from tests.fakes.web import Answer, Web
from tests.hooks.notices import stages


class _Slow(ScriptedSource):
    def __init__(self) -> None:
        super().__init__("slow")
        self.answer = threading.Event()

    def probe(self) -> bool:
        return self.answer.wait(5)


def test_sources_that_are_there_are_found_in_order() -> None:
    """The others are let go."""
    sources = [ScriptedSource(str(number), here=number % 2 == 0) for number in range(5)]
    assert [it.name for it in probe_all(sources)] == ["0", "2", "4"]


def test_source_that_does_not_answer_in_time_is_missing() -> None:
    """All are asked at once, and no longer than they are given."""
    slow = [_Slow(), _Slow()]
    started = time.monotonic()
    assert probe_all([*slow, there := ScriptedSource()], within=0.05) == [there]
    assert time.monotonic() - started < 1
    for source in slow:
        source.answer.set()


def test_nobody_is_asked_anything_where_no_provider_is() -> None:
    """After the probe there is no traffic."""
    with Web(lambda _: Answer(404)) as web:
        metadata = Metadata(web.name)
        found = probe_all([Aws(metadata), Gcp(metadata), Azure(metadata)])
        asked = len(web.requests)
        with Watcher(found) as watcher:
            assert watcher.wait(0.05) is None
        assert (found, asked) == ([], len(web.requests))


def test_one_cloud_is_not_taken_for_another() -> None:
    """Three of them have the same address."""
    for name in stages.CLOUDS:
        with stages.cloud(name) as stage:
            assert stage.service
            metadata = Metadata(stage.service.address)
            sources = [make(metadata) for _, make in stages.CLOUDS.values()]
            assert [it.name for it in probe_all(sources, within=5)] == [name]


def test_clouds_have_names_of_their_own() -> None:
    """A notice says whose it is."""
    assert len({it.name for it in clouds()}) == 5


def test_notice_is_news_once() -> None:
    """A deadline that is computed anew each time does not make it another one."""
    standing = Standing()
    first = notice(deadline=100.0)
    assert standing.update([first]) == [first]
    assert standing.update([notice(deadline=98.0)]) == []
    assert standing.update([notice(deadline=140.0)]) == []
    assert standing.update([notice(deadline=None)]) == []


def test_notice_is_news_again_when_its_deadline_comes_closer() -> None:
    """As when Azure starts an event before its time."""
    standing = Standing()
    standing.update([notice(deadline=900.0)])
    sooner = notice(deadline=10.0)
    assert standing.update([sooner]) == [sooner]
    assert standing.update([sooner]) == []


def test_slow_approach_of_a_deadline_is_news_in_the_end() -> None:
    """Small steps add up: each is measured from what was told last."""
    standing = Standing()
    told = [standing.update([notice(deadline=100.0 - 2 * step)]) for step in range(10)]
    assert sum(map(len, told)) == 4


def test_unknown_deadline_that_becomes_known_is_news() -> None:
    """There was nothing to plan with before."""
    standing = Standing()
    standing.update([notice()])
    known = notice(deadline=900.0)
    assert standing.update([known]) == [known]


def test_withdrawn_notice_is_news_and_may_come_back() -> None:
    """It is the one that was told."""
    standing = Standing()
    standing.update([notice("1"), notice("2")])
    assert standing.update([notice("2")]) == [Withdrawn(notice("1"))]
    assert standing.update([notice("1"), notice("2")]) == [notice("1")]


def test_watcher_tells_what_all_sources_say() -> None:
    """Each once, in the order in which it comes."""
    a, b = ScriptedSource("a"), ScriptedSource("b")
    with Watcher([a, b]) as watcher:
        b.say([notice("1", source="b")])
        assert watcher.wait(5) == notice("1", source="b")
        a.say([notice("2", source="a")])
        assert watcher.wait(5) == notice("2", source="a")
        a.wait(3)
        b.say([])
        assert watcher.wait(5) == Withdrawn(notice("1", source="b"))
        assert watcher.wait(0.02) is None


def test_source_in_trouble_is_silent() -> None:
    """What stood before stands after it."""
    source = ScriptedSource()
    with Watcher([source]) as watcher:
        source.say([notice()])
        assert watcher.wait(5) == notice()
        source.say(None)
        source.say([notice()])
        assert watcher.wait(0.02) is None


def test_source_in_trouble_is_asked_less_and_less() -> None:
    """It has enough to do."""

    class Troubled(ScriptedSource):
        def poll(self, patience: float) -> None:
            asked.append(time.monotonic())
            super().poll(patience)

    asked: list[float] = []
    source = Troubled()
    with Watcher([source]):
        source.wait(5)
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert all(pause >= 0.002 * 2**step for step, pause in enumerate(pauses)), pauses


def test_stop_ends_the_wait_at_once() -> None:
    """From any thread; and then there is no news any more."""
    source = ScriptedSource()
    with Watcher([source]) as watcher:
        threading.Timer(0.02, watcher.stop).start()
        started = time.monotonic()
        assert watcher.wait(5) is None
        assert time.monotonic() - started < 1
        assert watcher.wait() is None
        polls = source.polls
        time.sleep(0.02)
        assert source.polls <= polls + 1


def test_acknowledgement_goes_to_who_gave_the_notice() -> None:
    """And to nobody else."""
    a, b = ScriptedSource("a"), ScriptedSource("b")
    with Watcher([a, b]) as watcher:
        watcher.acknowledge(notice(source="b"))
    assert (a.acknowledged, b.acknowledged) == ([], [notice(source="b")])
