"""The options of `run` for a job that is looked after, and comes back by itself."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from spotrun.cli.owned import COMING_BACK, FLAGS, JOB
from spotrun.hooks.scheduler import NAMES, Scheduler, named
from spotrun.images.address import Address
from spotrun.images.care import AUTO, OVERHEAD, Care, Policy
from spotrun.images.errors import UsageError
from spotrun.runtime import grammar, jobs, probe, rhythm
from spotrun.runtime.coming import Wish

_SCHEDULER: Final = "--scheduler"
_KEEP: Final = ("last", "hourly", "daily", "weekly")
_WORDS: Final = ("--probe", "--resume-cmd", "--notice-command")
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,3})?)([kmg]?)b?", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

T = TypeVar("T")


def scheduler(own: Mapping[str, str]) -> Scheduler | None:
    """Return the scheduler that has started this process, if the job is to be one of its."""
    wanted = own.get(_SCHEDULER)
    if wanted is None:
        return None
    if wanted not in NAMES:
        raise UsageError(message=f"{_SCHEDULER} is {wanted!r}, and none of {', '.join(NAMES)}")
    found = named(wanted, os.environ)
    if found is None and JOB not in own:
        raise UsageError(message=f"no scheduler has started this process: name the job by {JOB}")
    return found


def wish(own: Mapping[str, str], store: Address, by: Scheduler | None) -> Wish:
    """Return the job as its options want it, by default with the name that its scheduler has."""
    name = own.get(JOB, by.identity if by else None)
    if name is None:
        option = next(it for it in own if it in COMING_BACK)
        raise UsageError(message=f"{option} needs {JOB}: it is for jobs that come back")
    last, hourly, daily, weekly = (_read(own, f"--keep-{it}", _count) or 0 for it in _KEEP)
    _read(own, "--every", rhythm.every)
    for option in _WORDS:
        _read(own, option, _words)
    for option in FLAGS:
        _read(own, option, _flag)
    _read(own, "--probe", probe.check)
    care = Care(
        every=own.get("--every", AUTO),
        max_overhead=_read(own, "--max-overhead", rhythm.share) or OVERHEAD,
        upload_limit=_read(own, "--upload-limit", size),
        keep=Policy(last, hourly, daily, weekly),
        probe=own.get("--probe"),
        resume_command=own.get("--resume-cmd"),
        notice_command=own.get("--notice-command"),
        grace=_read(own, "--grace", rhythm.length),
    )
    return Wish(
        job=jobs.check_name(name),
        store=store,
        care=care,
        fresh="--fresh" in own,
        by_force="--takeover" in own,
    )


def size(text: str) -> int:
    """Read `10m` or `512k` as bytes, as Docker does; ValueError: it is no size."""
    found = _SIZE.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a size like 512k, 10m or 1g")
    size = int(float(found[1]) * _UNITS[found[2].lower()])
    if not size:
        raise ValueError(f"{text!r} is nothing")
    return size


def _words(text: str) -> str:
    if not text.strip():
        raise ValueError("it says nothing")
    return text


def _flag(text: str) -> None:
    if text and text not in grammar.YES:
        raise ValueError(f"{text!r} is neither true nor false")


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError(f"{text!r} is not a number of snapshots")
    return int(text)


def _read(own: Mapping[str, str], option: str, parse: Callable[[str], T]) -> T | None:
    try:
        return parse(own[option]) if option in own else None
    except ValueError as error:
        raise UsageError(message=f"{option}: {error}") from None
