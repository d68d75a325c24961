"""What a registry may answer: every trouble is waited out or told in one sentence."""

import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spotrun.images.errors import RegistryDenied, RegistryUnavailable, SnapshotDamaged
from spotrun.images.oci.credentials import Credentials
from spotrun.images.oci.reference import Reference
from spotrun.images.oci.registry import Registry, digest_of
from tests.fakes.docker_registry import REFRESH, SECRET, USER, Auth, DockerRegistry
from tests.fakes.web import Answer, Request, Web

_RIGHT = Credentials("auth.json", USER, SECRET)
_WRONG = Credentials("auth.json", USER, "wrong-secret")
_BLOB = b"blob" * 1000
_DIGEST = digest_of(_BLOB)
_UNSURE = Answer(503, b'{"errors": [{"code": "UNAVAILABLE", "message": "come back later"}]}')


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)


def _registry(name: str, credentials: Credentials | None = None, **more: bool) -> Registry:
    return Registry(Reference(name, "team/train", "1"), credentials, **more)


def _in_turn(*answers: Answer) -> Web:
    """Return a server that gives these answers, the last one from then on."""
    left = list(answers)
    return Web(lambda _: left.pop(0) if len(left) > 1 else left[0])


@pytest.fixture(params=["basic", "token"])
def guarded(request: pytest.FixtureRequest) -> Iterator[DockerRegistry]:
    """Give a registry that not everybody may use."""
    auth: Auth = request.param
    with DockerRegistry(auth) as server:
        yield server


def _round_trip(registry: Registry, folder: Path) -> None:
    assert registry.put(_DIGEST, _BLOB)
    assert not registry.put(_DIGEST, _BLOB)
    registry.get(_DIGEST, len(_BLOB), folder / "blob")
    assert (folder / "blob").read_bytes() == _BLOB
    assert registry.part(_DIGEST, 4, 8, len(_BLOB)) == _BLOB[4:12]


@pytest.mark.registry
def test_credentials_open_the_registry(guarded: DockerRegistry, tmp_path: Path) -> None:
    """By name and secret, or by a token that a server gives for them."""
    _round_trip(_registry(guarded.name, _RIGHT), tmp_path)
    assert SECRET not in guarded.log()


@pytest.mark.registry
def test_identity_token_opens_the_registry(tmp_path: Path) -> None:
    """It is exchanged for one that the registry takes."""
    with DockerRegistry("token") as server:
        _round_trip(_registry(server.name, Credentials("helper", identity=REFRESH)), tmp_path)


@pytest.mark.registry
@pytest.mark.parametrize(
    ("credentials", "said"),
    [
        (_WRONG, "it does not accept the credentials from auth.json"),
        (None, "it wants credentials, and this host has none for it"),
    ],
)
def test_wrong_credentials_are_one_sentence(
    guarded: DockerRegistry, credentials: Credentials | None, said: str
) -> None:
    """It says whose they are, and what to do; the secret is not in it."""
    registry = _registry(guarded.name, credentials)
    for act in (lambda: registry.manifest("1"), lambda: registry.put(_DIGEST, _BLOB)):
        with pytest.raises(RegistryDenied) as refused:
            act()
        assert str(refused.value).startswith(f"registry {guarded.name} cannot be used: {said}")
        assert "podman login" in refused.value.hint
        assert "wrong-secret" not in str(refused.value)


def test_no_secret_goes_to_a_server_that_did_not_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither ours before it asks, nor one of ~/.netrc, nor any to where a blob is redirected."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with Web(lambda _: Answer(200, _BLOB)) as elsewhere:
        there = Answer(307, headers={"Location": f"http://localhost:{elsewhere.name[10:]}/blob"})
        asks = Answer(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        with _in_turn(asks, there) as web:
            monkeypatch.delenv("NETRC")
            _registry(web.name, _RIGHT).get(_DIGEST, len(_BLOB), tmp_path / "blob")
        (got,) = elsewhere.requests
        assert "Authorization" not in got.headers
        assert ["Authorization" in it.headers for it in web.requests] == [False, True]
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with _in_turn(Answer(404)) as web:
        _registry(web.name).manifest("1")
    assert "Authorization" not in web.requests[0].headers


def test_credentials_do_not_go_over_the_network_in_clear_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A registry that is spoken to by TLS cannot send us to a token server without."""
    monkeypatch.setattr(Reference, "loopback", property(lambda _: False))
    registry = _registry("registry.example.com", _RIGHT)
    with pytest.raises(RegistryDenied, match="it wants the credentials in clear text"):
        registry._tokens.renew('Bearer realm="http://registry.example.com/token",service="x"')  # noqa: SLF001
    with pytest.raises(RegistryDenied, match="a kind that spotrun does not know"):
        registry._tokens.renew('Negotiate realm="x"')  # noqa: SLF001


def test_passing_trouble_is_waited_out(tmp_path: Path) -> None:
    """Servers that are overloaded, and connections that break in mid-blob."""
    cut = Answer(200, _BLOB[:100], claimed=len(_BLOB))
    with _in_turn(_UNSURE, replace(_UNSURE, status=429), cut, Answer(200, _BLOB)) as web:
        _registry(web.name).get(_DIGEST, len(_BLOB), tmp_path / "blob")
    assert (tmp_path / "blob").read_bytes() == _BLOB
    assert len(web.requests) == 4


def test_lasting_trouble_is_told_in_the_words_of_the_registry() -> None:
    """After a few tries."""
    with _in_turn(_UNSURE) as web:
        with pytest.raises(RegistryUnavailable, match=r"come back later \(UNAVAILABLE\)$"):
            _registry(web.name).manifest("1")
        assert len(web.requests) == 6


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(418), "its server answered with status 418"),
        (Answer(400, b'{"errors": [{"message": "no"}]}'), "no"),
        (Answer(400, b"<html>"), "its server answered with status 400"),
        (
            Answer(403, b'{"errors": [{"code": "DENIED", "message": "not you"}]}'),
            "not you (DENIED)",
        ),
    ],
)
def test_refusal_is_final(answer: Answer, said: str) -> None:
    """It is told as it is, and not tried again."""
    with _in_turn(answer) as web:
        with pytest.raises(RegistryUnavailable) as refused:
            _registry(web.name).has(_DIGEST) if not answer.body else _registry(web.name).manifest(
                "1"
            )
        assert str(refused.value) == f"registry {web.name} cannot be used: {said}"
        assert len(web.requests) == 1


@pytest.mark.parametrize("body", [_BLOB[:-1], _BLOB + b"x", b"x" * len(_BLOB), b""])
def test_blob_that_is_another_is_refused(tmp_path: Path, body: bytes) -> None:
    """Shorter, longer, or of other content."""
    with _in_turn(Answer(200, body)) as web, pytest.raises(SnapshotDamaged, match=_DIGEST):
        _registry(web.name).get(_DIGEST, len(_BLOB), tmp_path / "blob")


def test_server_without_ranges_is_read_from_the_begin() -> None:
    """The part is the same."""
    with _in_turn(Answer(200, _BLOB)) as web:
        assert _registry(web.name).part(_DIGEST, 4, 8, len(_BLOB)) == _BLOB[4:12]


def test_manifest_that_is_not_what_the_registry_says_is_refused() -> None:
    """The digest stands beside it."""
    answer = Answer(200, b"{}", {"Docker-Content-Digest": _DIGEST})
    with _in_turn(answer) as web, pytest.raises(SnapshotDamaged, match=_DIGEST):
        _registry(web.name).manifest("1")


def test_endless_manifest_is_cut_off() -> None:
    """A registry cannot fill our memory."""
    with _in_turn(Answer(200, bytes(5 << 20))) as web:
        raw = _registry(web.name).manifest("1")
    assert len(raw or b"") == 4 << 20


@pytest.mark.parametrize(
    "where", ["/v2/team/train/blobs/uploads/1?state=x", "../uploads/1?state=x"]
)
def test_blob_is_sent_to_where_the_registry_says(where: str) -> None:
    """A location may be relative, and have a query of its own."""

    def answer(request: Request) -> Answer:
        statuses = {"HEAD": 404, "POST": 202, "PUT": 201}
        return Answer(statuses[request.method], headers={"Location": where})

    with Web(answer) as web:
        assert _registry(web.name).put(_DIGEST, _BLOB)
    last = web.requests[-1]
    assert last.body == _BLOB
    assert last.path.endswith(f"/uploads/1?state=x&digest={_DIGEST}")
    assert last.headers["Content-Type"] == "application/octet-stream"


def test_upload_that_fails_is_begun_anew() -> None:
    """What the registry has got of it is worth nothing."""
    puts = iter([Answer(503), Answer(201)])

    def answer(request: Request) -> Answer:
        if request.method == "PUT":
            return next(puts)
        status = 404 if request.method == "HEAD" else 202
        return Answer(status, headers={"Location": "/v2/team/train/blobs/uploads/1"})

    with Web(answer) as web:
        assert _registry(web.name).put(_DIGEST, _BLOB)
    assert [it.method for it in web.requests] == ["HEAD", "POST", "PUT", "POST", "PUT"]


def test_registry_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens, nobody has that name, or it is no TLS server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(RegistryUnavailable, match=f"127.0.0.1:{port} .*connection refused"):
        _registry(f"127.0.0.1:{port}").tags()
    monkeypatch.setattr(Reference, "loopback", property(lambda _: False))
    with pytest.raises(RegistryUnavailable, match="no host of that name is known"):
        _registry("nowhere.invalid").tags()
    with _in_turn(Answer()) as web, pytest.raises(RegistryUnavailable, match="--plain-http"):
        _registry(web.name).tags()
    with _in_turn(Answer(200, b'{"tags": ["1"]}')) as web:
        assert _registry(web.name, plain_http=True).tags() == ["1"]


@pytest.mark.parametrize("body", [b"{}", b'{"tags": null}', b"[]", b"no"])
def test_tags_that_make_no_sense_are_none(body: bytes) -> None:
    """A push goes without them."""
    with _in_turn(Answer(200, body)) as web:
        assert _registry(web.name).tags() == []
