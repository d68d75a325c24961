"""The client of one repository in a registry: the OCI distribution specification over requests.

Libraries that speak it for Python (oras among them) take files only, and know neither ranges,
nor several writers, nor Podman's credentials; what is needed of the protocol is this module.
"""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, Final, TypeVar
from urllib.parse import urljoin, urlsplit

import msgspec
import requests
from requests.adapters import HTTPAdapter
from requests.exceptions import (
    ChunkedEncodingError,
    ContentDecodingError,
    RequestException,
    SSLError,
    Timeout,
)
from requests.exceptions import ConnectionError as NoConnection
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from spotrun import __version__
from spotrun.images.errors import RegistryDenied, RegistryUnavailable, SnapshotDamaged
from spotrun.images.oci import trouble
from spotrun.images.oci.credentials import Credentials
from spotrun.images.oci.reference import Reference
from spotrun.images.oci.tokens import Nobody, Tokens

T = TypeVar("T")
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_ACCEPT: Final = f"{MANIFEST}, application/vnd.oci.image.index.v1+json;q=0.5"
_MOST_MANIFEST: Final = 4 << 20
"""Bytes: what the specification lets a manifest have."""
_PIECE: Final = 1 << 20
_CONNECTIONS: Final = 16
_CONNECT, _SILENCE = 10.0, 60.0
"""Seconds until a connection must stand, and that a registry may say nothing."""
_TRIES: Final = 6
_TAGS: Final = 1000
_OK, _CREATED, _ACCEPTED, _PARTIAL = 200, 201, 202, 206
_UNAUTHORIZED, _FORBIDDEN, _MISSING = 401, 403, 404
_PASSING: Final = frozenset((408, 429, 500, 502, 503, 504))


class Registry:
    """One repository; may be used by several threads.

    Callers may rely on: passing trouble has been waited out; what is returned is what its digest
    says; RegistryUnavailable and RegistryDenied name the registry and the cause in a sentence.
    """

    def __init__(
        self, reference: Reference, credentials: Credentials | None, *, plain_http: bool = False
    ) -> None:
        """Use TLS, except on this host or where the user allows to do without."""
        self.reference = reference
        clear = plain_http or reference.loopback
        self._base = f"{'http' if clear else 'https'}://{reference.host}/v2/{reference.repository}/"
        self._netloc = urlsplit(self._base).netloc
        self._session = requests.Session()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))
        self._session.headers["User-Agent"] = f"spotrun/{__version__}"
        self._session.headers["Accept-Encoding"] = "identity"
        # requests lets the proxies of the environment win, except over these
        self._proxies = {"http": "", "https": ""} if reference.loopback else {}
        self._tokens = Tokens(reference, credentials, self._session, self._proxies, clear=clear)

    def manifest(self, wanted: str) -> bytes | None:
        """Return the manifest of that tag or digest; None: there is none."""

        def read() -> bytes | None:
            headers = {"Accept": _ACCEPT}
            with self._send("GET", f"manifests/{wanted}", headers=headers) as answer:
                if answer.status_code == _MISSING:
                    return None
                self._expect(answer, _OK)
                raw = trouble.bounded(answer, _MOST_MANIFEST)
                digest = wanted if ":" in wanted else answer.headers.get("Docker-Content-Digest")
            if digest and digest.startswith("sha256:") and digest != digest_of(raw):
                raise self._damaged(f"manifest {digest} is not what its digest says")
            return raw

        return self._tried(read)

    def publish(self, raw: bytes, tag: str) -> str:
        """Write a manifest under a tag, in the place of one that is there; return its digest."""

        def write() -> None:
            headers = {"Content-Type": MANIFEST}
            with self._send("PUT", f"manifests/{tag}", headers=headers, data=raw) as answer:
                self._expect(answer, _CREATED, _OK)

        self._tried(write)
        return digest_of(raw)

    def tags(self) -> list[str]:
        """Return the tags of the repository, up to a thousand; none if nobody may know."""

        def read() -> list[str]:
            with self._send("GET", f"tags/list?n={_TAGS}") as answer:
                if answer.status_code in {_MISSING, _UNAUTHORIZED, _FORBIDDEN}:
                    return []
                self._expect(answer, _OK)
                raw = trouble.bounded(answer, _MOST_MANIFEST)
            try:
                return msgspec.json.decode(raw, type=_Tags).tags or []
            except msgspec.MsgspecError:
                return []

        return self._tried(read)

    def has(self, digest: str) -> bool:
        """Tell whether the repository has a blob."""

        def ask() -> bool:
            with self._send("HEAD", f"blobs/{digest}") as answer:
                if answer.status_code == _MISSING:
                    return False
                self._expect(answer, _OK)
                return True

        return self._tried(ask)

    def put(self, digest: str, source: Path | bytes) -> bool:
        """Write a blob from memory or a file unless it is there; return whether it was sent."""
        if self.has(digest):
            return False

        def write() -> None:
            with self._send("POST", "blobs/uploads/", data=b"") as begun:
                self._expect(begun, _ACCEPTED)
                where = self._upload_url(begun)
            place = f"{where}{'&' if urlsplit(where).query else '?'}digest={digest}"
            with self._send("PUT", place, headers=_BINARY, data=source) as answer:
                self._expect(answer, _CREATED)

        self._tried(write)
        return True

    def get(self, digest: str, size: int, target: Path) -> None:
        """Write a blob into a file, proved to be what its digest and size say."""

        def read() -> None:
            with self._send("GET", f"blobs/{digest}") as answer, target.open("wb") as sink:
                if answer.status_code == _MISSING:
                    raise self._damaged(f"blob {digest} is missing")
                self._expect(answer, _OK)
                found, count = _copied(answer, sink, size)
            if count != size or found != digest:
                raise self._damaged(f"blob {digest} is not what its digest and size say")

        self._tried(read)

    def small(self, digest: str, size: int, most: int) -> bytes:
        """Return a blob of at most so many bytes, proved to be what its digest says."""
        if size > most:
            raise self._damaged(f"blob {digest} has {size} bytes, more than it may have")
        raw = self.part(digest, 0, size, size)
        if raw is None or digest_of(raw) != digest:
            raise self._damaged(f"blob {digest} is missing or not what its digest says")
        return raw

    def part(self, digest: str, offset: int, length: int, size: int) -> bytes | None:
        """Return a part of a blob of that size, which nothing proves; None: it is not there."""

        def read() -> bytes | None:
            headers = {"Range": f"bytes={offset}-{offset + length - 1}"}
            with self._send("GET", f"blobs/{digest}", headers=headers) as answer:
                if answer.status_code == _PARTIAL:
                    return trouble.bounded(answer, length)
                if answer.status_code == _OK:  # it knows no ranges
                    return trouble.bounded(answer, size)[offset : offset + length]
                if answer.status_code != _MISSING:
                    self._expect(answer, _PARTIAL, _OK)
                return None

        return self._tried(read)

    def _upload_url(self, begun: requests.Response) -> str:
        """Return where to send a blob: by TLS if that is how we came, whatever a proxy made of it.

        A registry behind a proxy may believe that it is spoken to in clear text.
        """
        where = urlsplit(urljoin(begun.url, begun.headers.get("Location", "")))
        if where.netloc == self._netloc:
            where = where._replace(scheme=urlsplit(self._base).scheme)
        if where.scheme != "https" and self._base.startswith("https:"):
            raise self._unavailable("it wants the data in clear text")
        return where.geturl()

    def _send(
        self,
        method: str,
        place: str,
        *,
        headers: Mapping[str, str] | None = None,
        data: Path | bytes | None = None,
    ) -> requests.Response:
        """Return the answer to one request, whose body is yet to be read."""
        url = urljoin(self._base, place)
        mine = urlsplit(url).netloc == self._netloc
        answer = self._sent(method, url, headers, data, mine=mine)
        if answer.status_code == _UNAUTHORIZED and mine:
            challenge = answer.headers.get("WWW-Authenticate", "")
            answer.close()
            self._tokens.renew(challenge)
            answer = self._sent(method, url, headers, data, mine=mine)
        return answer

    def _sent(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        data: Path | bytes | None,
        *,
        mine: bool,
    ) -> requests.Response:
        def send(body: bytes | BinaryIO | None) -> requests.Response:
            return self._session.request(
                method,
                url,
                headers=headers,
                data=body,
                auth=self._tokens.auth if mine else Nobody(),
                proxies=self._proxies,
                stream=True,
                timeout=(_CONNECT, _SILENCE),
                allow_redirects=method in {"GET", "HEAD"},
            )

        if not isinstance(data, Path):
            return send(data)
        with data.open("rb") as file:
            return send(file)

    def _expect(self, answer: requests.Response, *statuses: int) -> None:
        """Raise what another status means; _Passing: it is worth another try."""
        status = answer.status_code
        if status in statuses:
            return
        said = trouble.said(answer)
        if status == _UNAUTHORIZED:
            raise RegistryDenied(
                registry=self.reference.registry, reason=self._tokens.refused(said)
            )
        if status == _FORBIDDEN:
            raise RegistryDenied(registry=self.reference.registry, reason=said)
        if status in _PASSING:
            raise _Passing(said)
        raise self._unavailable(said)

    def _tried(self, action: Callable[[], T]) -> T:
        """Do it, again and again while that may help; it must be safe to do it twice."""
        retrying = Retrying(
            retry=retry_if_exception_type((_Passing, NoConnection, Timeout, *_CUT_OFF)),
            wait=wait_random_exponential(multiplier=0.2, max=10),  # full jitter
            stop=stop_after_attempt(_TRIES),
            reraise=True,
        )
        try:
            done: T = retrying(self._once, action)
        except _Passing as error:
            raise self._unavailable(str(error)) from None
        except Timeout as error:
            raise self._unavailable("it does not answer in time") from error
        except RequestException as error:
            raise self._unavailable(trouble.cause(error)) from error
        return done

    def _once(self, action: Callable[[], T]) -> T:
        """Do it; what will be no better the next time is final at once."""
        try:
            return action()
        except SSLError as error:
            raise self._unavailable(trouble.tls(str(error))) from error
        except NoConnection as error:
            if "NameResolutionError" in repr(error):
                raise self._unavailable("no host of that name is known") from error
            raise

    def _damaged(self, reason: str) -> SnapshotDamaged:
        return SnapshotDamaged(snapshot=self.reference, reason=reason)

    def _unavailable(self, reason: str) -> RegistryUnavailable:
        return RegistryUnavailable(registry=self.reference.registry, reason=reason)


def digest_of(raw: bytes) -> str:
    """Return the digest of a blob in memory."""
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def digest_of_file(path: Path) -> str:
    """Return the digest of a blob in a file."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


_BINARY: Final = {"Content-Type": "application/octet-stream"}
_CUT_OFF: Final = (ChunkedEncodingError, ContentDecodingError)


class _Passing(Exception):
    """An answer that is worth another try."""


class _Tags(msgspec.Struct):
    tags: list[str] | None = None


def _copied(answer: requests.Response, sink: BinaryIO, size: int) -> tuple[str, int]:
    """Write a body, no more than a piece too much of it; return its digest and its size."""
    digest, count = hashlib.sha256(), 0
    for piece in answer.iter_content(_PIECE):
        digest.update(piece)
        sink.write(piece)
        count += len(piece)
        if count > size:
            break
    return f"sha256:{digest.hexdigest()}", count
