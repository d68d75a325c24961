"""Credentials for a registry, from the files that `podman login` and `docker login` write.

The files are asked in the order of containers-auth.json(5); the first that knows the registry
counts. In each, a helper program of the registry comes first, then the entry with the longest
part of `REGISTRY/REPOSITORY`, then the helper for all registries.
"""

import base64
import binascii
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from spotrun.images.errors import RegistryDenied
from spotrun.images.oci.reference import Reference
from spotrun.images.process import Runner

OVERRIDE: Final = "REGISTRY_AUTH_FILE"
_TOKEN_USER: Final = "<token>"  # noqa: S105 # no secret
"""The user name with which a helper says that its secret is an identity token."""
_HELPER_SECONDS: Final = 60
_HUB: Final = "docker.io"
_HUB_KEY: Final = "index.docker.io"
"""What `docker login` calls that registry."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one says to a registry, or to the server that gives out its tokens."""

    source: str
    """For people: where they were found."""
    user: str = ""
    secret: str = field(default="", repr=False)
    identity: str = field(default="", repr=False)
    """A token that is exchanged for others, in place of user and secret."""


@dataclass(frozen=True, slots=True)
class _Entry:
    auth: str = ""
    identitytoken: str = ""


class _File(msgspec.Struct, rename="camel"):
    auths: dict[str, _Entry] = msgspec.field(default_factory=dict)
    cred_helpers: dict[str, str] = msgspec.field(default_factory=dict)
    creds_store: str = ""


class _Said(msgspec.Struct, rename="pascal"):
    """The answer of a helper program."""

    username: str
    secret: str


def find(
    reference: Reference, runner: Runner, environment: Mapping[str, str] = os.environ
) -> Credentials | None:
    """Return the credentials for a repository; None: it is asked as nobody."""
    for path in files(environment):
        try:
            raw = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise _broken(reference, f"{path}: {error.strerror}") from error
        try:
            content = msgspec.json.decode(raw, type=_File)
        except msgspec.MsgspecError as error:
            raise _broken(reference, f"{path} makes no sense: {error}") from None
        if found := _in(content, path, reference, runner):
            return found
    return None


def files(environment: Mapping[str, str]) -> list[Path]:
    """Return the files that may have credentials, the first to be asked first."""
    if override := environment.get(OVERRIDE):
        return [Path(override)]
    home = Path(environment.get("HOME") or "/root")
    own = environment.get("XDG_RUNTIME_DIR")
    run = Path(own, "containers") if own else Path("/run/containers", str(os.getuid()))
    settings = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    docker = Path(environment.get("DOCKER_CONFIG") or home / ".docker")
    return [run / "auth.json", settings / "containers" / "auth.json", docker / "config.json"]


def _in(content: _File, path: Path, reference: Reference, runner: Runner) -> Credentials | None:
    if helper := content.cred_helpers.get(reference.registry):
        return _asked(helper, reference, runner)
    entries = {_plain(key): entry for key, entry in content.auths.items()}
    for key in _keys(reference):
        entry = entries.get(key)
        if entry and (entry.auth or entry.identitytoken):
            return _decoded(entry, path, reference)
    return _asked(content.creds_store, reference, runner) if content.creds_store else None


def _keys(reference: Reference) -> Iterator[str]:
    """Yield what an entry may be called, the most precise first."""
    names = [reference.registry] + ([_HUB_KEY] if reference.registry == _HUB else [])
    for name in names:
        parts = [name, *reference.repository.split("/")]
        for count in range(len(parts), 0, -1):
            yield "/".join(parts[:count])


def _plain(key: str) -> str:
    """Return a key of `docker login`, `https://HOST/v1/`, as others write it."""
    bare = key.removeprefix("https://").removeprefix("http://")
    return bare.removesuffix("/").removesuffix("/v1").removesuffix("/v2")


def _decoded(entry: _Entry, path: Path, reference: Reference) -> Credentials:
    if entry.identitytoken:
        return Credentials(str(path), identity=entry.identitytoken)
    try:
        user, colon, secret = base64.b64decode(entry.auth, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon:
        raise _broken(reference, f"{path} has an entry for it that makes no sense")
    return Credentials(str(path), user, secret.rstrip("\0"))


def _asked(helper: str, reference: Reference, runner: Runner) -> Credentials | None:
    """Ask a helper program; None: it knows none."""
    program = f"docker-credential-{helper}"
    asked = f"https://{_HUB_KEY}/v1/" if reference.registry == _HUB else reference.registry
    done = runner.run([program, "get"], stdin=asked, timeout=_HELPER_SECONDS)
    if done.status != 0:
        if "credentials not found" in done.stdout + done.stderr:
            return None
        raise _broken(reference, f"{program}: {done.said}")
    try:
        said = msgspec.json.decode(done.stdout, type=_Said)
    except msgspec.MsgspecError:
        raise _broken(reference, f"{program} gives an answer that makes no sense") from None
    if said.username == _TOKEN_USER:
        return Credentials(program, identity=said.secret)
    return Credentials(program, said.username, said.secret)


def _broken(reference: Reference, reason: str) -> RegistryDenied:
    return RegistryDenied(registry=reference.registry, reason=reason)
