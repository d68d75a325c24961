"""The package mirror of this machine, as its own apt configuration has it."""

import re
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.lab.shell import LabError, call

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass(frozen=True, slots=True)
class Mirror:
    """Where Debian's packages come from."""

    uri: str
    keyring: str = _KEYRING

    def source(self, suite: str, *, lags: bool = False) -> str:
        """Return a line for sources.list; a mirror that lags may serve an expired index."""
        options = f"signed-by={self.keyring}" + (" check-valid-until=no" if lags else "")
        return f"deb [{options}] {self.uri} {suite} main"

    def has(self, suite: str) -> bool:
        """Tell whether the mirror serves that suite, asked with apt's own settings."""
        address = f"{self.uri.rstrip('/')}/dists/{suite}/InRelease"
        with tempfile.TemporaryDirectory() as folder:
            helper = ["/usr/lib/apt/apt-helper", "download-file", address, f"{folder}/InRelease"]
            return call(*helper, check=False).returncode == 0


@dataclass(frozen=True, slots=True)
class _Entry:
    uri: str
    suites: list[str]
    components: list[str]
    keyring: str


def mirror() -> Mirror:
    """Return the mirror of this machine's own release."""
    release = Path("/etc/os-release").read_text()
    found = re.search(r"^VERSION_CODENAME=(\w+)", release, re.MULTILINE)
    codename = found[1] if found else ""
    for entry in _entries():
        if codename in entry.suites and "main" in entry.components:
            named = entry.keyring.startswith("/")  # else it is a key, not a file of keys
            return Mirror(entry.uri, entry.keyring if named else _KEYRING)
    raise LabError(f"apt's configuration has no Debian mirror for {codename!r}")


def proxies() -> list[str]:
    """Return the proxy settings of this machine's apt, as options for another one."""
    wanted = ("Acquire::http::Proxy", "Acquire::https::Proxy")
    dump = call("apt-config", "dump", "--format", '%F "%v"%n', *wanted).stdout
    return [line for line in dump.splitlines() if not line.endswith('""')]


def _entries() -> Iterator[_Entry]:
    """Yield each source, in either of apt's formats."""
    folder = Path("/etc/apt/sources.list.d")
    for path in [Path("/etc/apt/sources.list"), *sorted(folder.glob("*.list"))]:
        if path.exists():
            for line in path.read_text().splitlines():
                yield from _one_line(line)
    for path in sorted(folder.glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text()):
            yield from _stanza(stanza)


def _one_line(line: str) -> Iterator[_Entry]:
    options = re.search(r"\[([^]]*)\]", line)
    keyring = re.search(r"signed-by=(\S+)", options[1]) if options else None
    words = shlex.split(re.sub(r"\[[^]]*\]", "", line), comments=True)
    if words[:1] == ["deb"]:
        yield _Entry(words[1], words[2:3], words[3:], keyring[1] if keyring else "")


def _stanza(stanza: str) -> Iterator[_Entry]:
    fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
    words = {field: fields.get(field, "").split() for field in ("Types", "Suites", "Components")}
    if "deb" in words["Types"] and fields.get("Enabled", "yes").strip() != "no":
        for uri in fields.get("URIs", "").split():
            yield _Entry(uri, words["Suites"], words["Components"], fields.get("Signed-By", ""))
