"""What spotrun knows of CRIU: the options that real jobs need, and how it says what went wrong."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_OPTIONS: Final = """\
# Written by spotrun for one job; see criu(8).
manage-cgroups=ignore
tcp-established
network-lock=skip
file-locks
link-remap
ghost-limit=1073741824
ext-unix-sk
skip-in-flight
timeout=600
"""
"""Options for dump and restore, each with its reason:

manage-cgroups  the engine has made the cgroup; restoring others' layouts fails
tcp-established connections inside the container; preflight has refused all others
network-lock    nothing outside can send to those connections, and all ends are frozen
file-locks      flock and fcntl locks are common in caches and data loaders
link-remap      files that were unlinked while open (POSIX semaphores, pymp sockets)
ghost-limit     bytes of such a file; the default of 1 MiB is below any shared tensor
ext-unix-sk     datagram sockets to the host's loggers
skip-in-flight  half-open connections of a listening server are dropped, as a peer expects
timeout         seconds; the default of 10 is short for thousands of threads
"""

NETWORK: Final = "extRootNetNS"
"""What runc calls the network namespace of a container, where that is not CRIU's to restore."""


def config(external: Iterable[str] = ()) -> str:
    """Return the options, and what is not to be saved because it will be there."""
    return _OPTIONS + "".join(f"external={it}\n" for it in external)


_ERROR: Final = re.compile(r"Error \((?P<where>[^)]*)\): (?!rlimit: )(?P<what>.*)")
"""CRIU says `rlimit: Can't setup RLIMIT_NOFILE for self` and goes on, where it may not raise it."""


_MEANS: Final = (
    (
        re.compile("Can't dump that handle"),
        "it watches files (inotify), which cannot be saved",
    ),
    (re.compile("Unable to convert [ug]id"), "a process of it is in a user namespace of its own"),
    (re.compile("Can't lookup mount="), "a process of it is in a mount namespace of its own"),
)
"""What the words of CRIU mean to the user of a job, where they do not say that themselves."""


def cause(log: Path) -> str | None:
    """Return the first error of a CRIU log, which the later ones only repeat; None: there is none.

    CRIU marks each line with its source file, like `Error (criu/sk-inet.c:190): …`.
    """
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return None
    found = _ERROR.search(text)
    if found is None:
        return None
    what = found["what"].strip()
    return next((f"{told}: {what}" for words, told in _MEANS if words.search(what)), what)
