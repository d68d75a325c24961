"""The package mirror of this machine, as its own apt configuration has it."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.lab.shell import LabError, call

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True, slots=True)
class Mirror:
    """Where Debian's packages come from."""

    uri: str
    keyring: Path = _KEYRING

    def source(self, suite: str, *, lags: bool = False) -> str:
        """Return a line for sources.list; a mirror that lags may serve an expired index."""
        options = f"signed-by={self.keyring}" + (" check-valid-until=no" if lags else "")
        return f"deb [{options}] {self.uri} {suite} main"

    def has(self, suite: str) -> bool:
        """Tell whether the mirror serves that suite."""
        address = f"{self.uri.rstrip('/')}/dists/{suite}/InRelease"
        try:
            with urlopen(Request(address, method="HEAD"), timeout=30):  # noqa: S310 # apt's address
                return True
        except HTTPError:
            return False


def mirror() -> Mirror:
    """Return the mirror of this machine's own release."""
    release = Path("/etc/os-release").read_text()
    found = re.search(r"^VERSION_CODENAME=(\w+)", release, re.MULTILINE)
    codename = found[1] if found else ""
    for uri, suites in _entries():
        if codename in suites:
            return Mirror(uri)
    raise LabError(f"apt's configuration has no Debian mirror for {codename!r}")


def proxies() -> list[str]:
    """Return the proxy settings of this machine's apt, as options for another one."""
    wanted = ("Acquire::http::Proxy", "Acquire::https::Proxy")
    dump = call("apt-config", "dump", "--format", '%F "%v"%n', *wanted).stdout
    return [line for line in dump.splitlines() if not line.endswith('""')]


def _entries() -> Iterator[tuple[str, list[str]]]:
    """Yield address and suites of each source, in either of apt's formats."""
    folder = Path("/etc/apt/sources.list.d")
    for path in sorted(folder.glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text()):
            fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
            if "deb" in fields.get("Types", "").split():
                for uri in fields.get("URIs", "").split():
                    yield uri, fields.get("Suites", "").split()
    for path in [Path("/etc/apt/sources.list"), *sorted(folder.glob("*.list"))]:
        if path.exists():
            for line in path.read_text().splitlines():
                words = shlex.split(re.sub(r"\[[^]]*\]", "", line), comments=True)
                if words[:1] == ["deb"]:
                    yield words[1], words[2:3]
