"""The grammar of `docker run` / `podman run`: where the image stands, and what the options say.

spotrun passes options on as they are, so only two things must be known: which options take no
value (Podman 5, podman-run(1)), and which make no sense when the container is made again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from spotrun.images.errors import UsageError
from spotrun.images.manifest import RunSpec

_FLAGS: Final = frozenset(
    "--detach --disable-content-trust --env-host --help --http-proxy --init --interactive"
    " --no-healthcheck --no-hostname --no-hosts --oom-kill-disable --passwd --privileged"
    " --publish-all --quiet --read-only --read-only-tmpfs --replace --rm --rmi --rootfs"
    " --sig-proxy --tls-verify --tty --use-api-socket".split()
)
"""Options that take a value only as `--option=value`."""
_SHORT_FLAGS: Final = frozenset("diqtP")
_LONG: Final = {
    "a": "--attach", "c": "--cpu-shares", "d": "--detach", "e": "--env", "h": "--hostname",
    "i": "--interactive", "l": "--label", "m": "--memory", "p": "--publish",
    "P": "--publish-all", "q": "--quiet", "t": "--tty", "u": "--user", "v": "--volume",
    "w": "--workdir",
}  # fmt: skip
_FIRST_RUN_ONLY: Final = frozenset(
    "--annotation-file --cidfile --detach --detach-keys --env --env-file --env-host --env-merge"
    " --name --passwd --pidfile --preserve-fd --preserve-fds --pull --quiet --replace --rmi"
    " --sig-proxy --tls-verify --unsetenv --unsetenv-all --authfile --creds --cert-dir"
    " --decryption-key --retry --retry-delay".split()
)
"""Options of the moment of the first run: terminal, files of that host, registry, name.

The environment is among them because the snapshot knows the values it came to.
"""


@dataclass(frozen=True, slots=True)
class Option:
    """One option by its long name where spotrun knows it; no value: it is a flag."""

    name: str
    value: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The option as an engine takes it."""
        if self.value is None:
            return (self.name,)
        if self.name.startswith("--"):
            return (f"{self.name}={self.value}",)
        return (self.name, self.value)

    @property
    def on(self) -> bool:
        """Whether a flag is set: `--rm` and `--rm=true` are, `--rm=false` is not."""
        return self.value not in {"false", "0", "f", "F", "FALSE", "False"}


def split(arguments: Sequence[str]) -> RunSpec:
    """Part a command line into options, image and the container's own command."""
    at = sum(len(words) for _, words in _walk(arguments))
    end = at + 1 if list(arguments[at : at + 1]) == ["--"] else at
    if end >= len(arguments):
        raise UsageError(message="no image was given: spotrun run [OPTIONS] IMAGE [COMMAND …]")
    command = tuple(arguments[end + 1 :])
    return RunSpec(options=tuple(arguments[:at]), image=arguments[end], command=command)


def part(spec: RunSpec, names: frozenset[str]) -> RunSpec:
    """Return the command line without the named options."""
    kept = [words for found, words in _walk(spec.options) if found[0].name not in names]
    return replace(spec, options=tuple(word for words in kept for word in words))


def options(words: Sequence[str]) -> list[Option]:
    """Return the options in a command line that `split` has parted."""
    return [option for found, _ in _walk(words) for option in found]


def value(words: Sequence[str], name: str) -> str | None:
    """Return the last value given to an option, or None."""
    values = [option.value for option in options(words) if option.name == name]
    return values[-1] if values else None


def flag(words: Sequence[str], name: str) -> bool:
    """Tell whether a flag is set in the end."""
    found = [option.on for option in options(words) if option.name == name]
    return bool(found) and found[-1]


def lasting(words: Sequence[str]) -> list[Option]:
    """Return the options that hold for the container's whole life, on any host."""
    return [option for option in options(words) if option.name not in _FIRST_RUN_ONLY]


def _walk(words: Sequence[str]) -> Iterator[tuple[list[Option], Sequence[str]]]:
    """Yield the options that each word starts, and the words that they take."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in {"-", "--"}:
        following = words[at + 1] if at + 1 < len(words) else None
        found, width = _parse(words[at], following)
        yield found, words[at : at + width]
        at += width


def _parse(word: str, following: str | None) -> tuple[list[Option], int]:
    if not word.startswith("--"):
        return _parse_short(word, following)
    name, given, text = word.partition("=")
    if given or name in _FLAGS:
        return [Option(name, text if given else None)], 1
    return [Option(name, _needed(name, following))], 2


def _parse_short(word: str, following: str | None) -> tuple[list[Option], int]:
    """Read `-it`, `-eA=1`, `-p 80:80`, `-itv /a:/b`, `-d=false` as pflag does."""
    found: list[Option] = []
    for at, letter in enumerate(word[1:], start=1):
        name, rest = _LONG.get(letter, f"-{letter}"), word[at + 1 :]
        if rest.startswith("="):
            return [*found, Option(name, rest[1:])], 1
        if letter not in _SHORT_FLAGS:
            text = rest or _needed(name, following)
            return [*found, Option(name, text)], 1 if rest else 2
        found.append(Option(name))
    return found, 1


def _needed(name: str, following: str | None) -> str:
    if following is None:
        raise UsageError(message=f"option {name} needs a value")
    return following
