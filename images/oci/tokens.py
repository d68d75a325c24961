"""How one proves to a registry who one is: by name and secret, or by a token.

The registry's challenge says which. A token comes from the server that the challenge names
(Docker registry token authentication, and its OAuth2 form for identity tokens).
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec
import requests
from requests.auth import AuthBase, HTTPBasicAuth
from requests.exceptions import RequestException

from spotrun.images.errors import RegistryDenied, RegistryUnavailable
from spotrun.images.oci.credentials import Credentials
from spotrun.images.oci.reference import Reference

_CHALLENGE: Final = re.compile(
    r"(Basic|Bearer)\s+(.*?)(?=,?\s*(?:Basic|Bearer)\s|$)", re.IGNORECASE
)
_PARAMETER: Final = re.compile(r'(\w+)="([^"]*)"')
_CLIENT: Final = "spotrun"
_TIMEOUT: Final = (10.0, 60.0)
_OK: Final = 200
_REFUSED: Final = frozenset((400, 401, 403))


class Nobody(AuthBase):
    """Says nothing; without it, requests would look into ~/.netrc."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Leave the request as it is."""
        return request


class _Bearer(AuthBase):
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class _Token(msgspec.Struct):
    token: str = ""
    access_token: str = ""


class Tokens:
    """What is said to one registry; it changes when that asks for something else."""

    def __init__(
        self,
        reference: Reference,
        credentials: Credentials | None,
        session: requests.Session,
        proxies: Mapping[str, str],
        *,
        clear: bool,
    ) -> None:
        """Begin as nobody; `clear`: secrets may go over connections without TLS."""
        self.auth: AuthBase = Nobody()
        self._reference = reference
        self._credentials = credentials
        self._session = session
        self._proxies = dict(proxies)
        self._clear = clear

    def renew(self, challenge: str) -> None:
        """Do what the registry asks for; what cannot be done is RegistryDenied."""
        asked = {kind.lower(): dict(_PARAMETER.findall(it)) for kind, it in _found(challenge)}
        if "bearer" in asked:
            self.auth = _Bearer(self._token(asked["bearer"]))
        elif "basic" in asked and self._credentials and self._credentials.user:
            self.auth = HTTPBasicAuth(
                self._credentials.user.encode(), self._credentials.secret.encode()
            )
        elif "basic" not in asked:
            raise self._denied("it asks for credentials of a kind that spotrun does not know")

    def refused(self, said: str) -> str:
        """Return why what was said is not enough."""
        if self._credentials is None:
            return "it wants credentials, and this host has none for it"
        return f"it does not accept the credentials from {self._credentials.source}: {said}"

    def _token(self, asked: Mapping[str, str]) -> str:
        realm = asked.get("realm", "")
        secure = urlsplit(realm).scheme == "https"
        if not (secure or self._clear):
            raise self._denied("it wants the credentials in clear text")
        about = [("service", it) for it in (asked.get("service"),) if it]
        try:
            answer = self._asked(realm, about, asked.get("scope", ""))
        except (RequestException, ValueError) as error:
            name = urlsplit(realm).netloc or realm
            raise self._unavailable(f"its token server {name} does not answer") from error
        if answer.status_code in _REFUSED:
            raise self._denied(self.refused(f"status {answer.status_code} of its token server"))
        if answer.status_code != _OK:
            reason = f"its token server answered with status {answer.status_code}"
            raise self._unavailable(reason)
        try:
            found = msgspec.json.decode(answer.content, type=_Token)
        except msgspec.MsgspecError:
            found = _Token()
        if not (found.token or found.access_token):
            raise self._unavailable("its token server gives an answer that makes no sense")
        return found.token or found.access_token

    def _asked(self, realm: str, about: list[tuple[str, str]], scope: str) -> requests.Response:
        credentials = self._credentials
        if credentials and credentials.identity:
            form = [*about, ("client_id", _CLIENT), ("grant_type", "refresh_token")]
            form += [("refresh_token", credentials.identity), ("scope", scope)]
            return self._session.post(
                realm, data=form, auth=Nobody(), proxies=self._proxies, timeout=_TIMEOUT
            )
        auth: AuthBase = Nobody()
        if credentials:
            auth = HTTPBasicAuth(credentials.user.encode(), credentials.secret.encode())
        query = [*about, *(("scope", it) for it in scope.split())]
        return self._session.get(
            realm, params=query, auth=auth, proxies=self._proxies, timeout=_TIMEOUT
        )

    def _denied(self, reason: str) -> RegistryDenied:
        return RegistryDenied(registry=self._reference.registry, reason=reason)

    def _unavailable(self, reason: str) -> RegistryUnavailable:
        return RegistryUnavailable(registry=self._reference.registry, reason=reason)


def _found(challenge: str) -> list[tuple[str, str]]:
    """Return the schemes of a challenge, each with its parameters."""
    return _CHALLENGE.findall(challenge)
