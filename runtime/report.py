"""The page about one job: what it comes to, its timeline, and all its events.

It is one HTML document that needs nothing else, neither a network nor scripts, and says so itself.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final
from xml.etree.ElementTree import Element

from spotrun import __version__
from spotrun.images import ledger
from spotrun.images.ledger import Event, History, Summary
from spotrun.runtime import timeline
from spotrun.runtime.markup import add, document
from spotrun.runtime.timeline import Stay, clock, span

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser is to load: nothing."""
_FAR: Final = 5.0
"""Seconds by which clocks differ before it is told."""
_STYLE: Final = """
:root {
  color-scheme: light dark;
  --page: #fff; --ink: #1c2024; --faint: #6b7280; --line: #e3e6ea; --lane: #f5f6f8;
  --live: #2f7fc1; --files: #d98e04; --fresh: #7d8794; --alarm: #c8401a; --good: #12805c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --ink: #e6e8eb; --faint: #98a1ac; --line: #2c3238; --lane: #1b1f24;
    --live: #58a6e0; --files: #e5a83a; --fresh: #8d97a4; --alarm: #ff7a50; --good: #3fbf8f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 2rem auto; max-width: 76rem; padding: 0 1.25rem;
  background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, sans-serif;
}
h1 { font-size: 1.6rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2rem 0 .6rem; }
p { margin: .3rem 0; color: var(--faint); overflow-wrap: anywhere; }
dl {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(10.5rem, 1fr)); gap: .6rem;
  margin: 1.2rem 0;
}
dl div { border: 1px solid var(--line); border-radius: 6px; padding: .55rem .75rem; }
dt { color: var(--faint); font-size: .8rem; }
dd { margin: 0; font-size: 1.25rem; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
svg { display: block; min-width: 60rem; width: 100%; height: auto; }
svg { font: 12px system-ui, sans-serif; }
svg svg { width: auto; min-width: 0; }
text { fill: var(--ink); }
.lane0 { fill: var(--lane); } .lane1 { fill: var(--page); }
.host { font-weight: 600; }
.tick, .word { fill: var(--faint); font-size: 11px; }
.tick { text-anchor: middle; }
.word { paint-order: stroke; stroke: var(--page); stroke-width: 3px; }
.day { font-weight: 600; }
.grid { stroke: var(--line); }
.way { stroke: var(--faint); stroke-dasharray: 2 3; }
.run, .coming { rx: 2px; fill: var(--fresh); }
.run.live { fill: var(--live); } .run.files { fill: var(--files); }
.coming, .unheard { fill: var(--faint); fill-opacity: .55; }
.frozen { fill: var(--page); fill-opacity: .85; }
.snapshot { stroke: var(--ink); stroke-width: 1.5; }
.notice { fill: var(--alarm); }
.end { fill: var(--page); stroke: var(--ink); stroke-width: 2; }
.end.ended { fill: var(--good); }
.end.lost { stroke: var(--alarm); stroke-width: 3; } .end.lost circle { stroke: none; }
.key { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; list-style: none; padding: 0; }
.key li { display: flex; align-items: center; gap: .4rem; color: var(--faint); font-size: .85rem; }
.key svg { width: 22px; min-width: 22px; }
table { border-collapse: collapse; font-size: .85rem; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem .3rem 0; }
th { color: var(--faint); font-weight: 600; border-bottom: 1px solid var(--line); }
td { border-bottom: 1px solid var(--line); white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.why, td.where { white-space: normal; overflow-wrap: anywhere; min-width: 11rem; }
"""


def page(job: str, history: History, *, now: datetime, price: float | None = None) -> str:
    """Return the page, with money if an hour of a host has that price in USD."""
    events = history.events
    root = Element("html", {"lang": "en"})
    head, body = add(root, "head"), add(root, "body")
    add(head, "meta", charset="utf-8")
    add(head, "meta", http_equiv="Content-Security-Policy", content=_POLICY)
    add(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    add(head, "title", f"{job} · spotrun")
    add(head, "style", _STYLE)
    add(body, "h1", f"Job {job}")
    summary = ledger.summarise(events)
    add(body, "p", _line(events, now))
    if history.unreadable:
        add(body, "p", f"{history.unreadable} more events cannot be read: see spotrun verify.")
    figures = add(body, "dl")
    for name, value, meaning in _figures(summary, price):
        card = add(figures, "div", title=meaning)
        add(card, "dt", name)
        add(card, "dd", value)
    if events:
        found = timeline.stays(events)
        _picture(body, found)
        _table(body, events)
    return document(root)


def size(count: int) -> str:
    """Return a number of bytes for people."""
    value, units = float(count), iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while value >= 1024 and unit != "TiB":  # noqa: PLR2004 # binary prefixes
        value, unit = value / 1024, next(units)
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def _line(events: Sequence[Event], now: datetime) -> str:
    made = f"This page is of {now:%Y-%m-%d %H:%M:%S}, by spotrun {__version__}. Times are UTC."
    if not events:
        return f"Nothing is known of it. {made}"
    return f"From {clock(events[0])} to {clock(events[-1])}. {made}"


def _figures(it: Summary, price: float | None) -> Iterator[tuple[str, str, str]]:
    """Yield names, values and what they mean."""
    yield "hosts", str(len(it.hosts)), ", ".join(it.hosts)
    yield "runs", str(it.runs), "how often it was started or brought back"
    yield "interruptions", str(it.interruptions), "runs that were stopped or lost"
    if it.mtbf is not None:
        yield "between two of them", span(it.mtbf), "on the average"
    yield "notices", str(it.notices), "that a host would go"
    yield "snapshots", str(it.snapshots), "that were committed"
    yield "sent to the store", size(it.bytes), "by snapshots"
    yield "ran", span(it.ran), "all runs together, as far as something was heard of them"
    yield "frozen", span(it.frozen), "for snapshots, or for want of the lease"
    saved = "what the last run did not have to do again, against a restart from scratch"
    yield "work saved", span(it.saved), saved
    if price is not None:
        cost = it.cost(price)
        yield "paid", f"${cost.paid:,.2f}", f"for the hours that it ran, at ${price:,.2f} each"
        yield "not paid again", f"${cost.spared:,.2f}", "for the hours of work saved"


def _picture(body: Element, found: Sequence[Stay]) -> None:
    add(body, "h2", "Timeline")
    add(body, "div", class_="wide").append(timeline.draw(found))
    key = add(body, "ul", class_="key")
    for words, *shapes in _KEY:
        item = add(key, "li")
        symbol = add(item, "svg", viewBox="0 0 22 16", aria_hidden="true")
        for tag, kind, attributes in shapes:
            add(symbol, tag, class_=kind, **attributes)
        add(item, "span", words)
    moved = {it.host: it.shift for it in found if it.shift >= _FAR}
    for host, seconds in moved.items():
        late = f"The clock of {host} is behind: it is drawn {span(seconds)} later than it has it."
        add(body, "p", late)


_Shape = tuple[str, str, dict[str, str]]
_BAR: Final = {"x": "0", "y": "2", "width": "22", "height": "12"}
_THIN: Final = {"x": "0", "y": "6", "width": "22", "height": "4"}
_GAP: Final = {"x": "8", "y": "4", "width": "6", "height": "8"}
_DOT: Final = {"cx": "11", "cy": "8", "r": "5"}
_KEY: Final[tuple[tuple[str, *tuple[_Shape, ...]], ...]] = (
    ("begun from nothing", ("rect", "run fresh", _BAR)),
    ("goes on, processes and all", ("rect", "run live", _BAR)),
    ("started again from its files", ("rect", "run files", _BAR)),
    ("brought here, or not heard of", ("rect", "coming", _THIN)),
    ("frozen", ("rect", "run live", _BAR), ("rect", "frozen", _GAP)),
    ("snapshot", ("line", "snapshot", {"x1": "11", "x2": "11", "y1": "1", "y2": "15"})),
    ("notice", ("polygon", "notice", {"points": "6,4 16,4 11,13"})),
    ("stopped, to go on elsewhere", ("circle", "end stopped", _DOT)),
    ("ended", ("circle", "end ended", _DOT)),
    ("lost", ("path", "end lost", {"d": "M7,4 l8,8 m0,-8 l-8,8"})),
)


def _table(body: Element, events: Sequence[Event]) -> None:
    add(body, "h2", "Events")
    made = add(add(body, "div", class_="wide"), "table")
    head = add(add(made, "thead"), "tr")
    for name, kind in _COLUMNS:
        add(head, "th", name, class_=kind)
    rows = add(made, "tbody")
    for it in events:
        row = add(rows, "tr")
        for (_, kind), text in zip(_COLUMNS, _cells(it), strict=True):
            add(row, "td", text, class_=kind)


_COLUMNS: Final = (
    ("when (UTC)", "time"), ("host", "where"), ("epoch", "number"), ("what", "what"),
    ("snapshot", "id"), ("took", "number"), ("frozen", "number"), ("bytes", "number"),
    ("why", "why"),
)  # fmt: skip


def _cells(it: Event) -> tuple[str, ...]:
    what = f"{it.kind} {it.rung}" if it.rung else it.kind
    why = it.reason if it.deadline is None else f"{it.deadline:.0f} s left by {it.reason}"
    lasted = (f"{each:.1f} s" if each else "" for each in (it.seconds, it.frozen_seconds))
    sent = size(it.bytes) if it.bytes else ""
    return clock(it), it.host, str(it.epoch), what, it.snapshot or "", *lasted, sent, why
