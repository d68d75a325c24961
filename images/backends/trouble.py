"""What an object store's complaint means: whether to try again, and what to tell the user.

obstore has few classes of errors and says the rest in words: a sentence with the HTTP status and
the server's XML, and Rust's rendering of the cause.
"""

import re
from enum import Enum, auto
from typing import Final

from obstore.exceptions import (
    AlreadyExistsError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<\n]+)")
_TRANSPORT: Final = re.compile(r"HttpError \{\s+kind: (\w+)")
_CAUSE: Final = re.compile(r'(?:message|error): "([^"]+)"')
_GENERIC: Final = re.compile(r"^Generic \w+ error: ")
_PROVIDER: Final = "credential provider: "


class Verdict(Enum):
    """What to make of an error."""

    MISSING = auto()
    CONFLICT = auto()
    """The condition of a conditional write is not met."""
    TOO_SHORT = auto()
    PASSING = auto()
    """Worth another try."""
    EXPIRED = auto()
    """Worth another try with credentials read anew."""
    DENIED = auto()
    FULL = auto()
    FAILED = auto()


_BY_CODE: Final = {
    "NoSuchBucket": Verdict.FAILED,
    "ContainerNotFound": Verdict.FAILED,
    "ExpiredToken": Verdict.EXPIRED,
    "TokenRefreshRequired": Verdict.EXPIRED,
    "ConditionalRequestConflict": Verdict.PASSING,
    "OperationAborted": Verdict.PASSING,
    "RequestTimeout": Verdict.PASSING,
    "InternalError": Verdict.PASSING,
    "SlowDown": Verdict.PASSING,
    "QuotaExceeded": Verdict.FULL,
    "XMinioStorageFull": Verdict.FULL,
}
"""Codes that say more than the status they come with."""
_BY_STATUS: Final = {
    "401": Verdict.DENIED,
    "403": Verdict.DENIED,
    "416": Verdict.TOO_SHORT,
    "507": Verdict.FULL,
    **dict.fromkeys(("429", "500", "502", "503", "504"), Verdict.PASSING),
}
_BY_CLASS: Final = {
    FileNotFoundError: Verdict.MISSING,
    AlreadyExistsError: Verdict.CONFLICT,
    PreconditionError: Verdict.CONFLICT,
    PermissionDeniedError: Verdict.DENIED,
    UnauthenticatedError: Verdict.DENIED,
}


def judge(error: Exception) -> Verdict:
    """Return what to make of an error."""
    text = str(error)
    for table, pattern in ((_BY_CODE, _CODE), (_BY_STATUS, _STATUS)):
        if (found := pattern.search(text)) and found[1] in table:
            return table[found[1]]
    if type(error) in _BY_CLASS:
        return _BY_CLASS[type(error)]
    if _TRANSPORT.search(text) and "InvalidCertificate" not in text:
        return Verdict.PASSING
    return Verdict.FAILED


def explain(error: Exception) -> str:
    """Return an error's cause in a few words."""
    text = str(error)
    said, _, debug = text.partition("\n\nDebug source:")
    if code := _CODE.search(said):
        message = _MESSAGE.search(said)
        return f"{message[1].rstrip('.')} ({code[1]})" if message else code[1]
    if status := _STATUS.search(said):
        return f"its server answered with status {status[1]}"
    if "InvalidCertificate" in debug:
        return "its TLS certificate is not trusted"
    if transport := _TRANSPORT.search(debug):
        if transport[1] == "Timeout":
            return "it does not answer in time"
        cause = _CAUSE.search(debug)
        return cause[1] if cause else "the connection broke"
    return said.partition(_PROVIDER)[2] or _GENERIC.sub("", said.splitlines()[0])
