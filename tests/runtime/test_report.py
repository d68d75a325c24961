"""The page about a job says what its ledger does, whatever that is."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any, get_args
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.images import ledger
from spotrun.images.ledger import Event, History, Kind, Rung
from spotrun.runtime import report, timeline
from spotrun.runtime.timeline import WIDTH, span, stays
from tests.fakes.snapshots import NOW

_FIRST, _SECOND = "20261201T100000Z-00000a", "20261201T110000Z-00000b"
_HOSTILE = "</title></style></svg><script>alert('1')</script>\"'&amp;\x00\x1b[2J\ud800\u202e"
_VOID = {"meta"}


def _event(
    kind: Kind,
    after: float = 0,
    *,
    epoch: int = 1,
    host: str = "host-a",
    **details: Any,  # noqa: ANN401 # those of an event
) -> Event:
    """Return an event that happened so many seconds after the first one."""
    at = (NOW + timedelta(seconds=after)).isoformat(timespec="milliseconds")
    return Event(at=at, host=host, epoch=epoch, kind=kind, **details)


def _life() -> list[Event]:
    """Return what happened to a job on three hosts, one of which was cut off."""
    return [
        _event("started", rung="fresh"),
        _event("snapshot", 610, snapshot=_FIRST, seconds=10, frozen_seconds=2, bytes=5 << 20),
        _event("notice", 1000, deadline=119.5, reason="aws: terminate"),
        _event("stopped", 1031, snapshot=_FIRST, reason="aws: terminate"),
        _event("frozen", 1900, epoch=2, host="host-b", frozen_seconds=60),
        _event("lost", 3000, epoch=2, host="host-b", reason="host-c has it"),
        _event("restored", 1200, epoch=2, host="host-b", rung="live", snapshot=_FIRST, seconds=30),
        _event("restored", 2100, epoch=3, host="host-c", rung="files", snapshot=_FIRST, seconds=9),
        _event("ended", 4000, epoch=3, host="host-c", reason="exit code 0"),
    ]


class _Page(HTMLParser):
    """Reads a page as strictly as a test needs: every tag is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[tuple[str, str]] = []
        """Texts, each with the tag it is in."""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open it."""
        self.seen.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close it."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep it."""
        if data.strip():
            self.words.append((self.open[-1] if self.open else "", data))

    def texts(self, tag: str) -> list[str]:
        """Return what stands in tags of that name."""
        return [text for found, text in self.words if found == tag]


def _page(events: list[Event], *, price: float | None = None, unreadable: int = 0) -> _Page:
    ordered = (event for run in ledger.runs(events) for event in run.events)
    history = History(tuple(ordered), unreadable)
    return _Page(report.page("train", history, now=NOW, price=price))


def _picture(events: list[Event]) -> Element:
    return timeline.draw(stays(events))


def _kinds(picture: Element, kind: str) -> list[Element]:
    return [it for it in picture.iter() if it.get("class") == kind]


def _x(drawn: Element) -> float:
    return float(drawn.get("x") or drawn.get("x1") or drawn.get("cx") or "nan")


def _coordinates(picture: Element) -> Iterator[tuple[float, float]]:
    """Yield every point of what is drawn."""
    for it in picture.iter():
        at = {name: float(text) for name, text in it.items() if name in _NUMBERS}
        for x, y in (("x", "y"), ("x1", "y1"), ("x2", "y2"), ("cx", "cy")):
            if x in at:
                yield at[x], at[y]
                yield at[x] + at.get("width", 0), at[y] + at.get("height", 0)
        for pair in it.get("points", "").split():
            x, _, y = pair.partition(",")
            yield float(x), float(y)


_NUMBERS = {"x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "width", "height"}


def _is_within(picture: Element) -> bool:
    _, _, width, height = map(float, (picture.get("viewBox") or "").split())
    return all(0 <= x <= width and 0 <= y <= height for x, y in _coordinates(picture))


def test_page_tells_what_a_life_comes_to() -> None:
    """In figures, each with its meaning."""
    page = _page(_life(), price=3.6, unreadable=2)
    figures = dict(zip(page.texts("dt"), page.texts("dd"), strict=True))
    assert figures == {
        "hosts": "3",
        "runs": "3",
        "interruptions": "2",
        "between two of them": "39 min 26 s",
        "notices": "1",
        "snapshots": "1",
        "sent to the store": "5.0 MiB",
        "ran": "1 h 18 min",
        "frozen": "62.0 s",
        "work saved": "0.0 s",
        "paid": "$4.73",
        "not paid again": "$0.00",
    }
    assert any("2 more events cannot be read" in it for it in page.texts("p"))
    assert page.texts("h1") == ["Job train"]


def test_page_has_every_event_in_its_table() -> None:
    """With all that it says."""
    page = _page(_life())
    rows = [tag for tag, _ in page.seen if tag == "tr"]
    assert len(rows) == 1 + len(_life())
    cells = page.texts("td")
    for text in ("restored files", "5.0 MiB", "120 s left by aws: terminate", "2.0 s", _FIRST):
        assert text in cells


def test_page_needs_nothing_else() -> None:
    """Neither scripts nor a network, and it forbids both."""
    history = History(tuple(_life()), 0)
    text = report.page("train", history, now=NOW, price=1.0)
    page = _Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.seen}
    assert not re.search(r"https?:|url\(|@import|\bon\w+=", text)
    policy = [it["content"] for _, it in page.seen if it.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert "prefers-color-scheme: dark" in text


def test_whatever_is_said_stays_a_text() -> None:
    """Names of hosts, reasons and the job's name; what no page can say is replaced."""
    events = [replace(it, host=_HOSTILE, reason=_HOSTILE) for it in _life()]
    text = report.page(_HOSTILE, History(tuple(events), 0), now=NOW, price=1.0)
    page = _Page(text)
    assert "script" not in {tag for tag, _ in page.seen}
    shown = re.sub("[\x00\x1b\ud800\u202e]", "\ufffd", _HOSTILE)
    assert shown in page.texts("td")
    assert page.texts("h1") == [f"Job {shown}"]
    assert not re.search("[\x00-\x08\x0b-\x1f]", text)
    text.encode()


def test_history_of_nothing_is_a_page() -> None:
    """Without a timeline."""
    page = _page([])
    assert "svg" not in {tag for tag, _ in page.seen}
    assert any(it.startswith("Nothing is known of it.") for it in page.texts("p"))


@pytest.mark.parametrize("kind", get_args(Kind))
def test_one_event_is_a_picture(kind: Kind) -> None:
    """Whichever it is: the start of what is known may be damaged."""
    picture = _picture([_event(kind)])
    assert _is_within(picture)
    assert len(_kinds(picture, "lane0")) == 1


def test_each_thing_is_drawn_once() -> None:
    """Where it was and when."""
    picture = _picture(_life())
    for kind in ("run fresh", "run live", "run files", "notice", "snapshot", "frozen", "unheard"):
        assert len(_kinds(picture, kind)) == 1, kind
    for kind in ("end stopped", "end ended", "end lost"):
        assert len(_kinds(picture, kind)) == 1, kind
    assert len(_kinds(picture, "coming")) == 2
    assert len(_kinds(picture, "way")) == 2
    assert [it.text for it in _kinds(picture, "host")] == ["host-a", "host-b", "host-c"]
    assert [it.text for it in _kinds(picture, "word")] == ["fresh", "live", "files"]
    (run,), (snapshot,) = _kinds(picture, "run fresh"), _kinds(picture, "snapshot")
    share = (_x(snapshot) - _x(run)) / float(run.get("width") or 0)
    assert share == pytest.approx(610 / 1031, abs=0.01)
    assert _is_within(picture)


def test_what_is_drawn_says_what_it_is() -> None:
    """To who points at it."""
    titles = [it.text or "" for it in _picture(_life()).iter("title")]
    (notice,) = [it for it in titles if "notice" in it]
    assert notice == "2026-12-01 10:16:40 · host-a\nnotice, 120 s left\naws: terminate"
    assert any("1000.0 s" not in it and "epoch 3" in it and "restored files" in it for it in titles)


def test_host_that_is_not_heard_of_again_is_marked() -> None:
    """But not one on which the job may run still."""
    life = [_event("started"), _event("snapshot", 600), _event("restored", 5000, epoch=2)]
    picture = _picture(life)
    (mark,) = _kinds(picture, "end lost")
    assert mark.findtext("title") == "nothing more was heard of it here"
    assert [it for it in picture.iter() if (it.get("class") or "").startswith("end ")] == [mark]


def test_clock_that_is_behind_does_not_put_a_job_in_two_places() -> None:
    """The later host is drawn later, here and when the job comes back to it, and it is told."""
    day = 86400
    life = [
        _event("started", day),
        _event("stopped", day + 1000),
        _event("restored", 100, epoch=2, host="host-b", rung="live", seconds=40),
        _event("stopped", 700, epoch=2, host="host-b"),
        _event("restored", day + 2000, epoch=3, rung="live", seconds=40),
        _event("stopped", day + 2100, epoch=3),
        _event("restored", 5000, epoch=4, host="host-b", rung="live"),
    ]
    found = stays(life)
    assert all(before.end <= after.comes for before, after in pairwise(found))
    assert [it.shift for it in found] == [0, day + 940, 0, day + 940]
    assert [it.end - it.begin for it in found] == [1000, 600, 100, 0]
    page = _page(life)
    late = "The clock of host-b is behind: it is drawn 1 d 0 h later than it has it."
    assert late in page.texts("p")
    assert "1970" not in "".join(page.texts("text"))


def test_clock_that_is_ahead_is_no_reason_to_draw_anything_elsewhere() -> None:
    """Nobody can tell it from a long wait."""
    life = [_event("started"), _event("restored", 86400, epoch=2, host="host-b")]
    assert [it.shift for it in stays(life)] == [0, 0]


def test_lost_host_does_not_hold_up_the_one_that_has_the_job() -> None:
    """It finds out later; until then the job was frozen there."""
    life = [
        _event("started"),
        _event("snapshot", 500),
        _event("lost", 5000),
        _event("restored", 700, epoch=2, host="host-b"),
    ]
    first, second = stays(life)
    assert (first.end, second.shift) == (NOW.timestamp() + 500, 0)


def test_job_that_was_migrated_is_on_both_hosts() -> None:
    """Even if the target did not say how it came there."""
    life = [
        _event("started"),
        _event("stopped", 500),
        _event("snapshot", 900, epoch=2, host="host-b"),
    ]
    assert [it.host for it in stays(life)] == ["host-a", "host-b"]
    assert [it.text for it in _kinds(_picture(life), "word")] == ["started", "unknown"]


def test_words_do_not_run_into_each_other() -> None:
    """Where runs are short, some of them go without."""
    life = [_event("started", 0)]
    life += [_event("restored", 10000 + it, epoch=it + 2, rung="live") for it in range(0, 900, 30)]
    words = _kinds(_picture(life), "word")
    assert 2 <= len(words) < 10
    for one, other in pairwise(sorted(words, key=_x)):
        assert _x(one) + 6 * len(one.text or "") <= _x(other)


def test_snapshots_that_are_too_near_to_tell_are_one_tick() -> None:
    """Which says how many."""
    life = [_event("started")]
    life += [_event("snapshot", 60 * it, snapshot=_SECOND) for it in range(1, 10_000)]
    ticks = _kinds(_picture(life), "snapshot")
    assert len(ticks) < WIDTH / 2
    assert "snapshots, the last:" in (ticks[0].findtext("title") or "")


@pytest.mark.parametrize("length", [0, 59, 3600, 86400, 40 * 86400, 4000 * 86400])
def test_axis_can_be_read_at_any_length(length: int) -> None:
    """A few times, apart from each other, and the date."""
    picture = _picture([_event("started"), _event("ended", length)])
    times = [it for it in _kinds(picture, "tick") if it.text]
    assert 2 <= len(times) <= 9
    places = sorted(map(_x, times))
    assert all(other - one > 60 for one, other in pairwise(places))
    days = [it.text for it in _kinds(picture, "tick day")]
    assert len(set(days)) == len(days) > 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (99.94, "99.9 s"),
        (100, "1 min 40 s"),
        (3599.7, "1 h 0 min"),
        (7380, "2 h 3 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_lengths_of_time_are_for_people(seconds: float, text: str) -> None:
    """With two units at most."""
    assert span(seconds) == text


_HUGE = st.floats(0, 1e300)
_EVENTS = st.lists(
    st.builds(
        Event,
        at=st.datetimes().map(lambda it: f"{it.isoformat()}+00:00"),
        host=st.sampled_from(["host-a", "host-b", "<b>", ""]) | st.text(max_size=40),
        epoch=st.integers(0, 4),
        kind=st.sampled_from(get_args(Kind)),
        snapshot=st.sampled_from([None, _FIRST, _SECOND]),
        rung=st.sampled_from([None, *get_args(Rung)]),
        reason=st.text(max_size=20),
        seconds=_HUGE | st.floats(-5, 500),
        frozen_seconds=_HUGE | st.floats(-5, 500),
        bytes=st.integers(0, 1 << 62),
        deadline=st.none() | _HUGE,
    ),
    max_size=12,
)


@settings(deadline=None)
@given(_EVENTS)
def test_any_ledger_makes_a_page(found: list[Event]) -> None:
    """In which everything lies within the picture."""
    _page(found, price=1.0)
    if found:
        picture = _picture(found)
        assert _is_within(picture)
        assert all(before.end <= after.comes + 1e-3 for before, after in pairwise(stays(found)))
