"""The life of a job as a picture: a lane for each host, as SVG.

Times are those of the hosts' clocks. Where these contradict the order in which a job came from one
host to the next, the later stay is drawn as much later as it takes, and says so.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Final, Self
from xml.etree.ElementTree import Element

from spotrun.images import ledger
from spotrun.images.ledger import Event, Kind
from spotrun.runtime.markup import add

WIDTH: Final = 1120
_LEFT: Final = 190
_RIGHT: Final = 54
_TOP: Final = 44
"""For the axis."""
_LANE: Final = 58
_BAR: Final = 16
"""Where a bar is in its lane: notices are above it, snapshots and words below."""
_THICK: Final = 16
_BELOW: Final = _BAR + _THICK
_LETTER: Final = 6.5
"""How wide one is, about."""
_NAME: Final = 23
"""Letters of a host's name for which there is room."""
_NEAR: Final = 2.0
"""Snapshots that are nearer to each other are one tick."""
_LEAST: Final = 60.0
"""Seconds that a picture shows."""
_LABELS: Final = 8
_DAY: Final = 86400
_STEPS: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, _DAY
)  # fmt: skip
_LONGEST: Final = 366.0 * _DAY
"""Seconds that anything is drawn for, whatever an event says."""
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC).timestamp()
_LATEST: Final = datetime.max.replace(tzinfo=UTC).timestamp() - _DAY
"""That a date can be written for."""


@dataclass(frozen=True, slots=True)
class Stay:
    """A job on one host, from when it came there to what was last heard of it."""

    events: tuple[Event, ...]
    shift: float
    """Seconds by which it is drawn later than its host's clock has it."""
    last: bool
    """No other one follows."""

    @property
    def host(self) -> str:
        """The host."""
        return self.events[0].host

    @property
    def comes(self) -> float:
        """When it begins to be brought there, in seconds since 1970, as all times here."""
        first = self.events[0]
        return self.at(first) - (took(first) if first.kind == "restored" else 0.0)

    @property
    def begin(self) -> float:
        """When it runs there."""
        return self.at(self.events[0])

    @property
    def end(self) -> float:
        """When it was last known to run."""
        left = [self.at(it) for it in self.events if it.kind in {"stopped", "ended"}]
        told = [self.at(it) for it in self.events if it.kind != "lost"]
        return max(left or told, default=self.begin)

    @property
    def over(self) -> Kind | None:
        """What has ended it."""
        found = [it.kind for it in self.events if it.kind in {"stopped", "lost", "ended"}]
        return found[0] if found else None

    def at(self, event: Event) -> float:
        """Return when an event is drawn."""
        return ledger.instant(event).timestamp() + self.shift


def stays(events: Iterable[Event]) -> list[Stay]:
    """Return where the job was, in order; none begins before the one before was last heard of."""
    apart = [
        tuple(group)
        for run in ledger.runs(events)
        for _, group in groupby(run.events, key=lambda it: it.host)
    ]
    found: list[Stay] = []
    shifts: dict[str, float] = defaultdict(float)
    for number, group in enumerate(apart, 1):
        stay = Stay(group, shifts[group[0].host], last=number == len(apart))
        late = found[-1].end - stay.comes if found else 0.0
        if late > 0:
            shifts[stay.host] += late
            stay = Stay(group, shifts[stay.host], last=stay.last)
        found.append(stay)
    return found


def draw(found: Sequence[Stay]) -> Element:
    """Return the picture of a job that has been somewhere."""
    picture = _Picture.of(found)
    root = Element("svg", {"viewBox": f"0 0 {WIDTH} {picture.height}", "role": "img"})
    root.set("aria-label", "timeline; the table below has all of it")
    for host in picture.hosts:
        picture.lane(root, host)
    picture.axis(root)
    for before, after in pairwise(found):
        picture.way(root, before, after)
    for stay in found:
        picture.stay(root, stay)
    for host in picture.hosts:
        picture.words(root, [it for it in found if it.host == host])
    return root


def took(event: Event) -> float:
    """Return the seconds that an event took, as far as they can be drawn."""
    return min(max(event.seconds, 0.0), _LONGEST)


def clock(event: Event) -> str:
    """Return when something has happened, for people."""
    return _people(ledger.instant(event))


def span(seconds: float) -> str:
    """Return a length of time for people."""
    if seconds < 100:  # noqa: PLR2004 # up to there tenths are of interest
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


@dataclass(frozen=True, slots=True)
class _Picture:
    """Knows where everything is."""

    hosts: dict[str, int]
    """With their lanes."""
    begin: float
    length: float

    @classmethod
    def of(cls, found: Sequence[Stay]) -> Self:
        """Have room for these."""
        hosts = dict.fromkeys(it.host for it in found)
        begin = min(it.comes for it in found)
        end = max(it.at(event) for it in found for event in it.events)
        lanes = {host: lane for lane, host in enumerate(hosts)}
        return cls(lanes, begin, max(_LEAST, end - begin))

    @property
    def height(self) -> int:
        return _TOP + _LANE * len(self.hosts)

    def _x(self, at: float) -> float:
        share = min(max((at - self.begin) / self.length, 0.0), 1.0)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def _y(self, host: str) -> int:
        return _TOP + _LANE * self.hosts[host]

    def axis(self, root: Element) -> None:
        """Write times above, and the date where it changes."""
        day = ""
        for at in _ticks(self.begin, self.length):
            known = min(max(at, _EARLIEST), _LATEST)
            when, x = _people(datetime.fromtimestamp(known, UTC)), self._x(at)
            add(root, "line", class_="grid", x1=x, x2=x, y1=_TOP - 4, y2=self.height)
            add(root, "text", when[11:].removesuffix(":00"), class_="tick", x=x, y=_TOP - 10)
            if day != when[:10]:
                day = when[:10]
                add(root, "text", day, class_="tick day", x=x, y=_TOP - 26)

    def lane(self, root: Element, host: str) -> None:
        """Write the host's name, which is cut off where it is too long."""
        y, kind = self._y(host), f"lane{self.hosts[host] % 2}"
        add(root, "rect", class_=kind, x=0, y=y, width=WIDTH, height=_LANE)
        room = add(root, "svg", x=0, y=y, width=_LEFT - 12, height=_LANE)
        short = host if len(host) <= _NAME else f"{host[: _NAME - 1]}…"
        name = add(room, "text", short, class_="host", x=10, y=_BAR + 12)
        add(name, "title", host)

    def way(self, root: Element, before: Stay, after: Stay) -> None:
        """Lead from one host to the next."""
        if before.host != after.host:
            x1, x2 = self._x(before.end), self._x(after.comes)
            y1, y2 = (self._y(it.host) + _BAR + _THICK / 2 for it in (before, after))
            add(root, "line", class_="way", x1=x1, y1=y1, x2=x2, y2=y2)

    def stay(self, root: Element, stay: Stay) -> None:
        """Draw what has happened there, what is seldom over what is frequent."""
        y, first = self._y(stay.host) + _BAR, stay.events[0]
        if stay.comes < stay.begin:
            box = self._box(root, "coming", (stay.comes, stay.begin), y, inset=5)
            add(box, "title", f"brought here in {span(first.seconds)}\n{said(first)}")
        for it in stay.events:
            if it.kind == "lost":
                box = self._box(root, "unheard", (stay.end, stay.at(it)), y, inset=5)
                add(box, "title", said(it))
        box = self._box(root, f"run {first.rung or 'unknown'}", (stay.begin, stay.end), y)
        add(box, "title", _told(stay))
        for it in stay.events:
            if it.kind in {"frozen", "snapshot"}:
                self._frozen(root, stay, it, y)
        self._snapshots(root, stay, y)
        for it in stay.events:
            if it.kind == "notice":
                x = self._x(stay.at(it))
                shape = f"{x - 5:.1f},{y - 11} {x + 5:.1f},{y - 11} {x:.1f},{y - 2}"
                add(add(root, "polygon", class_="notice", points=shape), "title", said(it))
        self._end(root, stay, y)

    def words(self, root: Element, here: Sequence[Stay]) -> None:
        """Write how the job came to a host each time, where there is room for it."""
        free = 0.0
        for it in here:
            first = it.events[0]
            word = first.rung or (first.kind if first.kind == "started" else "unknown")
            x, width = self._x(it.begin), _LETTER * len(word)
            if x >= free and x + width <= WIDTH:
                y = self._y(it.host) + _BELOW + 20
                add(root, "text", word, class_="word", x=x, y=y)
                free = x + width + _LETTER

    def _box(
        self, root: Element, kind: str, lasts: tuple[float, float], y: float, *, inset: int = 0
    ) -> Element:
        x, end = map(self._x, lasts)
        tall = _THICK - 2 * inset
        return add(root, "rect", class_=kind, x=x, y=y + inset, width=max(end - x, 2), height=tall)

    def _frozen(self, root: Element, stay: Stay, event: Event, y: float) -> None:
        """Draw it where it is to be seen; without a lease it always is."""
        lasted = min(max(event.frozen_seconds, 0.0), _LONGEST)
        waited = event.kind == "frozen"
        begin = stay.at(event) - (lasted if waited else max(took(event), lasted))
        if waited or self._x(begin + lasted) - self._x(begin) >= 1:
            begin = max(begin, stay.begin)
            box = self._box(root, "frozen", (begin, begin + lasted), y, inset=2)
            add(box, "title", said(event))

    def _snapshots(self, root: Element, stay: Stay, y: float) -> None:
        taken, low = [it for it in stay.events if it.kind == "snapshot"], y + _THICK + 1
        for _, group in groupby(taken, lambda it: self._x(stay.at(it)) // _NEAR):
            near = list(group)
            x = self._x(stay.at(near[-1]))
            drawn = add(root, "line", class_="snapshot", x1=x, x2=x, y1=low, y2=low + 7)
            more = f"{len(near)} snapshots, the last:\n" if len(near) > 1 else ""
            add(drawn, "title", more + said(near[-1]))

    def _end(self, root: Element, stay: Stay, y: float) -> None:
        """Mark it, unless the job may run there still."""
        over = stay.over or ("" if stay.last else "unheard")
        marks = [it for it in stay.events if it.kind == over]
        x, middle = self._x(stay.at(marks[0]) if marks else stay.end), y + _THICK / 2
        title = said(marks[0]) if marks else "nothing more was heard of it here"
        if over in {"stopped", "ended"}:
            drawn = add(root, "circle", class_=f"end {over}", cx=x, cy=middle, r=5)
        elif over:
            drawn = add(root, "g", class_="end lost")
            add(drawn, "circle", cx=x, cy=middle, r=7)
            add(drawn, "path", d=f"M{x - 4:.1f},{middle - 4:.1f} l8,8 m0,-8 l-8,8")
        else:
            return
        add(drawn, "title", title)


def said(it: Event) -> str:
    """Return all that an event says, for people."""
    parts = [
        f"{it.kind} {it.rung}" if it.rung else it.kind,
        f"snapshot {it.snapshot}" if it.snapshot else "",
        f"took {span(it.seconds)}" if it.seconds else "",
        f"frozen for {span(it.frozen_seconds)}" if it.frozen_seconds else "",
        f"{it.deadline:.0f} s left" if it.deadline is not None else "",
    ]
    lines = [f"{clock(it)} · {it.host}", ", ".join(filter(None, parts)), it.reason]
    return "\n".join(filter(None, lines))


def _told(stay: Stay) -> str:
    first = stay.events[0]
    lines = [f"{span(stay.end - stay.begin)} on {stay.host}, epoch {first.epoch}", said(first)]
    if stay.shift:
        lines.append(f"drawn {span(stay.shift)} later than its clock had it")
    return "\n".join(lines)


def _people(at: datetime) -> str:
    return at.replace(tzinfo=None).isoformat(" ", "seconds")


def _ticks(begin: float, length: float) -> Iterator[float]:
    """Yield the times that are written on the axis."""
    most = length / _LABELS
    step = next((it for it in _STEPS if it >= most), _DAY)
    while step < most:
        step *= 2
    at = -(-begin // step) * step
    while at <= begin + length:
        yield at
        at += step
