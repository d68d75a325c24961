"""Credentials are found where the tools for images leave them."""

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from spotrun.images.errors import RegistryDenied
from spotrun.images.oci import credentials
from spotrun.images.oci.credentials import Credentials
from spotrun.images.oci.reference import Reference
from spotrun.images.process import Completed
from tests.fakes.runner import ScriptedRunner

_REFERENCE = Reference("registry.example.com", "team/train", "1")
_NOBODY = ScriptedRunner({})


def _entry(name: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{name}:{name}-secret:x".encode()).decode()}


def _write(path: Path, content: Mapping[str, Any] | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def _found(path: Path, reference: Reference = _REFERENCE) -> Credentials | None:
    return credentials.find(reference, _NOBODY, {credentials.OVERRIDE: str(path)})


def _user(found: Credentials | None) -> str | None:
    return found.user if found else None


def test_files_are_asked_in_the_order_of_the_tools(tmp_path: Path) -> None:
    """Podman's run-time file, its settings, docker's; the first that knows the registry counts."""
    home, run = tmp_path / "home", tmp_path / "run"
    places = [
        run / "containers" / "auth.json",
        home / ".config" / "containers" / "auth.json",
        home / ".docker" / "config.json",
    ]
    environment = {"HOME": str(home), "XDG_RUNTIME_DIR": str(run)}
    assert credentials.files(environment) == places
    assert credentials.find(_REFERENCE, _NOBODY, environment) is None
    for number, path in reversed(list(enumerate(places))):
        _write(path, {"auths": {"registry.example.com": _entry(f"user-{number}")}})
        found = credentials.find(_REFERENCE, _NOBODY, environment)
        assert _user(found) == f"user-{number}"
    _write(places[0], {"auths": {"other.example.com": _entry("other")}})
    assert _user(credentials.find(_REFERENCE, _NOBODY, environment)) == "user-1"


def test_variables_move_the_files() -> None:
    """Those of the tools; one of them leaves no other file."""
    moved = {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "DOCKER_CONFIG": "/d"}
    run = f"/run/containers/{os.getuid()}/auth.json"
    expected = [Path(run), Path("/c/containers/auth.json"), Path("/d/config.json")]
    assert credentials.files(moved) == expected
    assert credentials.files({**moved, credentials.OVERRIDE: "/o"}) == [Path("/o")]


def test_secret_may_have_a_colon_and_is_not_shown(tmp_path: Path) -> None:
    """Neither does a traceback have it."""
    path = _write(tmp_path / "auth.json", {"auths": {"registry.example.com": _entry("me")}})
    found = _found(path)
    assert found == Credentials(str(path), "me", "me-secret:x")
    assert "me-secret" not in repr(found)


@pytest.mark.parametrize(
    ("keys", "user"),
    [
        (["registry.example.com", "registry.example.com/team"], "registry.example.com/team"),
        (
            ["registry.example.com/team", "registry.example.com/team/train"],
            "registry.example.com/team/train",
        ),
        (["registry.example.com/tea", "registry.example.com"], "registry.example.com"),
        (["https://registry.example.com/v1/"], "https://registry.example.com/v1/"),
        (["registry.example.com:443", "example.com"], None),
    ],
)
def test_most_precise_entry_counts(tmp_path: Path, keys: list[str], user: str | None) -> None:
    """By whole parts of the path; a port is part of the name."""
    entries = {key: {"auth": base64.b64encode(f"{key[:5]}:s".encode()).decode()} for key in keys}
    path = _write(tmp_path / "auth.json", {"auths": entries})
    assert _user(_found(path)) == (user and user[:5])
    if user:
        only = _write(tmp_path / "only.json", {"auths": {user: entries[user]}})
        assert _user(_found(only)) == user[:5]


def test_docker_hub_is_known_by_the_name_that_docker_gives_it(tmp_path: Path) -> None:
    """`docker login` without a registry writes an entry for index.docker.io."""
    path = _write(tmp_path / "a", {"auths": {"https://index.docker.io/v1/": _entry("hub")}})
    assert _user(_found(path, Reference("docker.io", "library/a"))) == "hub"
    assert _found(path) is None


def test_identity_token_is_taken(tmp_path: Path) -> None:
    """In place of name and secret."""
    path = _write(tmp_path / "a", {"auths": {"registry.example.com": {"identitytoken": "it"}}})
    assert _found(path) == Credentials(str(path), identity="it")


@pytest.mark.parametrize(
    "content", [{"credHelpers": {"registry.example.com": "x"}}, {"credsStore": "x"}]
)
def test_helper_is_asked(tmp_path: Path, content: dict[str, Any]) -> None:
    """One for the registry, or one for all."""
    path = _write(tmp_path / "a", content)
    answer = json.dumps({"ServerURL": "…", "Username": "me", "Secret": "s"})
    runner = ScriptedRunner({("docker-credential-x", "get"): Completed(0, answer)})
    found = credentials.find(_REFERENCE, runner, {credentials.OVERRIDE: str(path)})
    assert found == Credentials("docker-credential-x", "me", "s")
    answer = json.dumps({"Username": "<token>", "Secret": "it"})
    runner = ScriptedRunner({("docker-credential-x", "get"): Completed(0, answer)})
    found = credentials.find(_REFERENCE, runner, {credentials.OVERRIDE: str(path)})
    assert found == Credentials("docker-credential-x", identity="it")


def test_helper_that_knows_nothing_leaves_it_to_nobody(tmp_path: Path) -> None:
    """That is no error; a helper that fails is."""
    path = _write(tmp_path / "a", {"credsStore": "x"})
    environment = {credentials.OVERRIDE: str(path)}
    said = Completed(1, "credentials not found in native keychain\n")
    runner = ScriptedRunner({("docker-credential-x", "get"): said})
    assert credentials.find(_REFERENCE, runner, environment) is None
    runner = ScriptedRunner({("docker-credential-x", "get"): Completed(1, stderr="locked")})
    with pytest.raises(
        RegistryDenied, match=r"registry\.example\.com .*docker-credential-x: locked"
    ):
        credentials.find(_REFERENCE, runner, environment)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        '{"auths": 1}',
        '{"auths": {"registry.example.com": {"auth": "%"}}}',
        '{"auths": {"registry.example.com": {"auth": "bm9jb2xvbg=="}}}',
    ],
)
def test_file_that_makes_no_sense_is_named(tmp_path: Path, content: str) -> None:
    """Rather than that nobody is asked for."""
    path = _write(tmp_path / "auth.json", content)
    with pytest.raises(RegistryDenied, match=r"auth\.json"):
        _found(path)
