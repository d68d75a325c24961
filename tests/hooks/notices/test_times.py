"""Instants are read as each provider writes them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from spotrun.hooks.notices import times


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (times.rfc3339, "2026-04-11T22:06:58Z"),
        (times.rfc3339, "2026-04-11T22:06:58"),
        (times.rfc3339, "2026-04-12T00:06:58+02:00\n"),
        (times.rfc1123, "Sat, 11 Apr 2026 22:06:58 GMT"),
        (times.rfc1123, "Mon, 11 Apr 2026 22:06:58 GMT"),
        (times.rfc1123, "11 Apr 2026 22:06:58 GMT"),
        (times.beijing, "2026-04-12 06:06:58"),
        (times.beijing, " 2026-04-12 06:06:58\n"),
    ],
)
def test_instant_is_read_with_its_zone(read: Callable[[str], datetime], text: str) -> None:
    """A weekday that is wrong, as in Azure's own example, is no hindrance."""
    found = read(text)
    assert found == datetime(2026, 4, 11, 22, 6, 58, tzinfo=UTC)
    assert found.utcoffset() is not None


def test_one_digit_day_is_read() -> None:
    """AWS writes no zero before it."""
    assert times.rfc1123("2 Jan 2019 09:00:43 GMT").day == 2


def test_beijing_is_eight_hours_ahead() -> None:
    """The text does not say so."""
    assert times.beijing("2018-08-18 12:05:33").utcoffset() == timedelta(hours=8)


@pytest.mark.parametrize("read", [times.rfc3339, times.rfc1123, times.beijing])
@pytest.mark.parametrize("text", ["", "soon", "2026-04-31T00:00:00Z", "<html>", "99999999999"])
def test_anything_else_is_a_value_error(read: Callable[[str], datetime], text: str) -> None:
    """Of all that a garbled service may say."""
    with pytest.raises(ValueError, match=r"."):
        read(text)
