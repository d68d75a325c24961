"""What a registry's complaint means, in a few words for the user."""

from typing import Final

import msgspec
import requests
from requests.exceptions import RequestException

_MOST_ERROR: Final = 64 << 10
_PIECE: Final = 1 << 20


class _Error(msgspec.Struct):
    code: str = ""
    message: str = ""


class _Errors(msgspec.Struct):
    errors: list[_Error] = msgspec.field(default_factory=list)


def bounded(answer: requests.Response, most: int) -> bytes:
    """Return a body, which is cut off where it is longer than it may be."""
    found = bytearray()
    for piece in answer.iter_content(_PIECE):
        found += piece
        if len(found) >= most:
            break
    return bytes(found[:most])


def said(answer: requests.Response) -> str:
    """Return what a registry says is wrong, in a few words."""
    try:
        found = msgspec.json.decode(bounded(answer, _MOST_ERROR), type=_Errors).errors
    except (msgspec.MsgspecError, RequestException):
        found = []
    if found and (found[0].message or found[0].code):
        return f"{found[0].message} ({found[0].code})" if found[0].code else found[0].message
    return f"its server answered with status {answer.status_code}"


def tls(text: str) -> str:
    """Return why there is no secure connection."""
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its TLS certificate is not trusted; REQUESTS_CA_BUNDLE names those that are"
    if "WRONG_VERSION_NUMBER" in text or "record layer failure" in text:
        return "it does not speak TLS; --plain-http lets everything go in clear text"
    return "no secure connection can be made to it"


def cause(error: BaseException) -> str:
    """Return the operating system's word for what broke a connection."""
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, OSError) and at.strerror:
            return at.strerror[0].lower() + at.strerror[1:]
        inner = next((it for it in at.args if isinstance(it, BaseException)), None)
        reason = getattr(inner, "reason", None)
        at = reason if isinstance(reason, BaseException) else inner or at.__cause__
    return "the connection broke"
