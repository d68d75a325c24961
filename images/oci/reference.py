"""`oci://REGISTRY/REPOSITORY:TAG`: where a snapshot is in a registry."""

import re
from dataclasses import dataclass
from typing import Final

from spotrun.images.errors import UsageError

SCHEME: Final = "oci://"
_WORD: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_REFERENCE: Final = re.compile(
    rf"(?P<registry>(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]+\])(?::\d+)?)"
    rf"/(?P<repository>{_WORD}(?:/{_WORD})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_LOOPBACK: Final = re.compile(r"(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?")
_HUB: Final = "docker.io"
_HUB_HOST: Final = "registry-1.docker.io"


@dataclass(frozen=True, slots=True)
class Reference:
    """A place in a registry: the tag is what a digest is found by, unless that is given."""

    registry: str
    """Host, and port if there is one, as the user calls it."""
    repository: str
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        """Return it as a user writes it."""
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{SCHEME}{self.registry}/{self.repository}{tag}{digest}"

    @property
    def wanted(self) -> str:
        """What to ask the registry for: the digest if there is one, else the tag."""
        return self.digest or self.tag or "latest"

    @property
    def host(self) -> str:
        """Where the registry answers, which for one of them is not its name."""
        return _HUB_HOST if self.registry == _HUB else self.registry

    @property
    def loopback(self) -> bool:
        """Tell whether it is on this host, so that nobody can listen in."""
        return _LOOPBACK.fullmatch(self.registry) is not None


def parse(text: str) -> Reference:
    """Read a reference, or raise UsageError."""
    found = _REFERENCE.fullmatch(text.removeprefix(SCHEME)) if text.startswith(SCHEME) else None
    if not found:
        raise UsageError(message=f"{text!r} is not like oci://registry.example.com/repository:tag")
    parts = found.groupdict()
    if parts["registry"] == _HUB and "/" not in parts["repository"]:
        parts["repository"] = f"library/{parts['repository']}"
    return Reference(**parts)
