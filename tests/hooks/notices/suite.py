"""What every source of notices does, as functions that need nothing but a stage."""

from collections.abc import Iterator

from spotrun.hooks.notices.notice import Notice, NoticeSource
from tests.fakes.metadata import Trouble
from tests.hooks.notices.stages import SECONDS, Stage


def source_that_is_there_says_so(stage: Stage) -> None:
    """As often as it is asked."""
    assert stage.source.probe()
    assert stage.source.probe()


def quiet_is_an_empty_answer(stage: Stage) -> None:
    """And not the answer of one that cannot know."""
    assert stage.source.poll(0) == ()
    assert stage.source.poll(0) == ()


def notice_has_source_and_words(stage: Stage) -> None:
    """Those of who gave it; and it is an order, with so many seconds left."""
    stage.announce()
    notice = _only(stage.source)
    assert notice.source == stage.source.name
    assert notice.words
    assert notice.order
    left = notice.left()
    assert left is not None
    assert SECONDS - 3 < left < SECONDS + 1.1, left


def notice_that_stands_is_the_same_event(stage: Stage) -> None:
    """However often it is asked for."""
    stage.announce()
    assert _only(stage.source).event == _only(stage.source).event


def quiet_before_is_no_hindrance(stage: Stage) -> None:
    """What comes after an empty answer is told with the next one."""
    assert stage.source.poll(0) == ()
    stage.announce()
    assert _only(stage.source)


def withdrawn_notice_stands_no_more(stage: Stage) -> None:
    """Where there is a way to withdraw it, and then another one may come."""
    if stage.withdraw:
        for _ in range(2):
            stage.announce()
            assert _only(stage.source)
            stage.withdraw()
            assert stage.source.poll(0) == ()


def acknowledgement_of_anything_is_harmless(stage: Stage) -> None:
    """Twice, and after it was withdrawn."""
    stage.announce()
    notice = _only(stage.source)
    stage.source.acknowledge(notice)
    stage.source.acknowledge(notice)
    if stage.withdraw:
        stage.withdraw()
        stage.source.acknowledge(notice)


def trouble_gives_no_notice(stage: Stage) -> None:
    """A service that answers otherwise than it should is not there, and says nothing."""
    for trouble in _troubles(stage):
        assert not stage.source.poll(0), trouble


def trouble_takes_no_notice_back(stage: Stage) -> None:
    """What stood before stands, and the source goes on when the trouble is over."""
    stage.announce()
    before = _only(stage.source).event
    for trouble in _troubles(stage):
        found = stage.source.poll(0)
        assert found is None or [it.event for it in found] == [before], trouble
    assert _only(stage.source).event == before


def death_of_the_service_is_no_notice(stage: Stage) -> None:
    """Nor does it take one back, or harm an acknowledgement."""
    stage.announce()
    notice = _only(stage.source)
    if stage.service:
        stage.service.die()
        assert stage.source.poll(0) is None
        stage.source.acknowledge(notice)


def _troubles(stage: Stage) -> Iterator[Trouble]:
    """Bring all but slowness, which takes time, over the service one by one, where there is one."""
    if stage.service:
        for trouble in set(Trouble) - {Trouble.SLOW}:
            stage.service.trouble = trouble
            yield trouble
        stage.service.trouble = None


def _only(source: NoticeSource) -> Notice:
    found = source.poll(0)
    assert found is not None
    assert len(found) == 1, found
    return found[0]
