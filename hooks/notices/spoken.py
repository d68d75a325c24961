"""Notices that are given by hand: how many seconds are left, in a word or none."""

import re
from typing import Final

from spotrun.hooks.notices.notice import Kind, Notice

ADVICE: Final = "advice"
_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s?")


def spoken(source: str, event: str, text: str, since: float) -> Notice:
    """Return the notice that says `120` or `120s`, counted from `since`; anything else is words.

    Behind `advice` it is that, and no order.
    """
    words = text.strip()
    seconds = _SECONDS.fullmatch(words.removeprefix(ADVICE).strip())
    return Notice(
        source,
        Kind.PREEMPT,
        event=event,
        words=words,
        order=not words.startswith(ADVICE),
        deadline=since + float(seconds[1]) if seconds else None,
    )
