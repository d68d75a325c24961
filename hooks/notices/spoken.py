"""Notices that are given by hand: how many seconds are left, in a word or none."""

import re
from typing import Final

from spotrun.hooks.notices.notice import Kind, Notice

ADVICE: Final = "advice"
_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(?:s\b|s?$)")
"""A number alone is that of seconds; one with words behind it may count anything."""


def spoken(source: str, event: str, text: str, since: float) -> Notice:
    """Return the notice that says `120`, `120s` or `120s and why`, counted from `since`.

    Anything else is words. Behind `advice` it is that, and no order.
    """
    order = not text.strip().startswith(ADVICE)
    said = text.strip().removeprefix(ADVICE).strip()
    seconds = _SECONDS.match(said)
    words = (seconds and said[seconds.end() :].strip()) or said
    return Notice(
        source,
        Kind.PREEMPT,
        event=event,
        words=words if order else f"{ADVICE} {words}".strip(),
        order=order,
        deadline=since + float(seconds[1]) if seconds else None,
    )
