"""What the engine does beyond the contract, and what it makes of complaints."""

from collections.abc import Callable
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import (
    AlreadyExistsError,
    GenericError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import LocalStore, MemoryStore

from spotrun.images.backends.objects import ObjectBackend
from spotrun.images.backends.trouble import Verdict, explain, judge
from spotrun.images.errors import StoreUnavailable
from spotrun.images.patience import Patience


def _answer(status: int, code: str = "") -> str:
    body = f"<Error><Code>{code}</Code><Message>It is so.</Message></Error>" if code else ""
    said = f"Server returned non-2xx status code: {status} Whatever: {body}"
    return f"Generic S3 error: Error performing PUT https://host/it in 1ms - {said}{_DEBUG}"


def _broken(kind: str, cause: str) -> str:
    said = "Generic S3 error: HTTP error: error sending request"
    return f"{said}{_DEBUG}HttpError {{\n  kind: {kind},\n  source: {cause}\n}}"


_DEBUG = "\n\nDebug source:\n"
_BAD_TLS = _broken("Connect", "InvalidCertificate(UnknownIssuer)")
_NO_LOGIN = "No: External AWS credential provider: SSOError: log in"


@pytest.mark.parametrize(
    ("kind", "text", "verdict", "reason"),
    [
        (GenericError, _answer(500), Verdict.PASSING, "its server answered with status 500"),
        (GenericError, _answer(501), Verdict.FAILED, "its server answered with status 501"),
        (GenericError, _answer(507), Verdict.FULL, "its server answered with status 507"),
        (GenericError, _answer(503, "SlowDown"), Verdict.PASSING, "It is so (SlowDown)"),
        (GenericError, _answer(429, "Many"), Verdict.PASSING, "It is so (Many)"),
        (GenericError, _answer(400, "RequestTimeout"), Verdict.PASSING, "(RequestTimeout)"),
        (GenericError, _answer(400, "ExpiredToken"), Verdict.EXPIRED, "(ExpiredToken)"),
        (GenericError, _answer(400, "Other"), Verdict.FAILED, "It is so (Other)"),
        (PermissionDeniedError, _answer(403, "QuotaExceeded"), Verdict.FULL, "(QuotaExceeded)"),
        (PermissionDeniedError, _answer(403, "No"), Verdict.DENIED, "It is so (No)"),
        (FileNotFoundError, _answer(404, "NoSuchKey"), Verdict.MISSING, "(NoSuchKey)"),
        (FileNotFoundError, _answer(404, "NoSuchBucket"), Verdict.FAILED, "(NoSuchBucket)"),
        (PreconditionError, _answer(412), Verdict.CONFLICT, "status 412"),
        (AlreadyExistsError, _answer(409, "BlobAlreadyExists"), Verdict.CONFLICT, "Exists)"),
        (AlreadyExistsError, _answer(409, "ConditionalRequestConflict"), Verdict.PASSING, ")"),
        (GenericError, _broken("Timeout", "TimedOut"), Verdict.PASSING, "it does not answer"),
        (GenericError, _broken("Connect", 'message: "No route"'), Verdict.PASSING, "No route"),
        (GenericError, _broken("Interrupted", ""), Verdict.PASSING, "the connection broke"),
        (GenericError, _BAD_TLS, Verdict.FAILED, "its TLS certificate is not trusted"),
        (UnauthenticatedError, _NO_LOGIN, Verdict.DENIED, "SSOError: log in"),
        (GenericError, f"Generic S3 error: A redirect{_DEBUG}", Verdict.FAILED, "A redirect"),
    ],
)
def test_complaint_is_understood(
    kind: type[Exception], text: str, verdict: Verdict, reason: str
) -> None:
    """Codes say more than statuses, and statuses more than classes."""
    error = kind(text)
    assert judge(error) is verdict
    assert reason in explain(error)
    assert "\n" not in explain(error)


def test_store_that_complains_of_absent_objects_deletes_the_others(tmp_path: Path) -> None:
    """As GCS and Azure do; obstore's own store of files stands for them."""
    backend = ObjectBackend(LocalStore(tmp_path), "files", patience=Patience())
    for key in ("a", "b", "c"):
        backend.put(key, b"")
    backend.delete(["absent", "a", "gone", "c"])
    assert [it.key for it in backend.list()] == ["b"]


@pytest.mark.parametrize(
    ("call", "error"),
    [("put", AlreadyExistsError), ("put", FileNotFoundError), ("list", FileNotFoundError)],
)
def test_complaint_that_fits_no_object_is_about_the_store(
    monkeypatch: pytest.MonkeyPatch, call: str, error: type[Exception]
) -> None:
    """A write without a condition cannot conflict, nor can it miss its object."""

    def fail(*_: object, **__: object) -> None:
        raise error(_answer(404))

    backend = ObjectBackend(MemoryStore(), "memory", patience=Patience())
    uses: dict[str, Callable[[], object]] = {
        "put": lambda: backend.put("it", b""),
        "list": backend.list,
    }
    monkeypatch.setattr(obstore, call, fail)
    with pytest.raises(StoreUnavailable):
        uses[call]()
