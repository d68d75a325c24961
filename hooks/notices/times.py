"""The ways in which providers write an instant; all raise ValueError for anything else."""

from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Final

_BEIJING: Final = timezone(timedelta(hours=8))


def rfc3339(text: str) -> datetime:
    """Read `2017-09-18T08:22:00Z`; without a zone it is UTC."""
    return _aware(datetime.fromisoformat(text.strip()), UTC)


def rfc1123(text: str) -> datetime:
    """Read `Mon, 11 Apr 2026 22:26:58 GMT`, and `21 Jan 2019 09:00:43 GMT` as AWS writes it."""
    return _aware(parsedate_to_datetime(text.strip()), UTC)


def beijing(text: str) -> datetime:
    """Read `2018-08-18 12:05:33` as Tencent writes it: UTC+8, which the text does not say."""
    return _aware(datetime.fromisoformat(text.strip()), _BEIJING)


def _aware(instant: datetime, zone: timezone) -> datetime:
    return instant if instant.tzinfo else instant.replace(tzinfo=zone)
