"""The grammar of `docker run` and `podman run`: what the options are, and where the image stands.

Both read their command lines with pflag, and stop at the first word that is no option. An option
is a flag, which takes a value only as `--flag=value`, or it takes the rest of its word or the next
one. The table has the options of Docker 26 to 29 and Podman 5, docker-run(1) and podman-run(1).
One that is in neither is passed on; it takes a value, so an unknown flag is to be written as
`--flag=true`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from spotrun.images.errors import UsageError
from spotrun.images.runspec import RunSpec

_FLAGS_OF_BOTH: Final = """
    detach disable-content-trust help init interactive no-healthcheck oom-kill-disable privileged
    publish-all quiet read-only rm sig-proxy tty
"""
_FLAGS_OF_DOCKER: Final = "use-api-socket"
_FLAGS_OF_PODMAN: Final = """
    env-host http-proxy no-hostname no-hosts passwd read-only-tmpfs replace rmi rootfs syslog
    tls-verify trace transient-store unsetenv-all
"""
_FLAGS_OF_SPOTRUN: Final = "fresh takeover"
_VALUES_OF_BOTH: Final = """
    add-host annotation attach blkio-weight blkio-weight-device cap-add cap-drop cgroup-parent
    cgroupns cidfile cpu-period cpu-quota cpu-rt-period cpu-rt-runtime cpu-shares cpus cpuset-cpus
    cpuset-mems detach-keys device device-cgroup-rule device-read-bps device-read-iops
    device-write-bps device-write-iops dns dns-option dns-search entrypoint env env-file expose
    gpus group-add health-cmd health-interval health-retries health-start-period health-timeout
    hostname ip ip6 ipc label label-file log-driver log-opt mac-address memory memory-reservation
    memory-swap memory-swappiness mount name network network-alias oom-score-adj pid pids-limit
    platform publish pull restart runtime security-opt shm-size stop-signal stop-timeout
    storage-opt sysctl tmpfs ulimit user userns uts volume volumes-from workdir
"""
_VALUES_OF_DOCKER: Final = """
    cpu-count cpu-percent domainname health-start-interval io-maxbandwidth io-maxiops isolation
    kernel-memory link link-local-ip volume-driver
"""
_VALUES_OF_PODMAN: Final = """
    arch authfile cert-dir cgroup-conf cgroup-manager cgroups chrootdirs conmon conmon-pidfile creds
    decryption-key default-mounts-file env-merge events-backend gidmap group-entry
    health-log-destination health-max-log-count health-max-log-size health-on-failure
    health-startup-cmd health-startup-interval health-startup-retries health-startup-success
    health-startup-timeout hooks-dir hosts-file hostuser image-volume imagestore init-path log-level
    network-cmd-path network-config-dir os passwd-entry personality pidfile pod pod-id-file
    preserve-fd preserve-fds rdt-class registries-conf requires retry retry-delay root runroot
    runtime-flag sdnotify seccomp-policy secret shm-size-systemd signature-policy storage-driver
    subgidname subuidname systemd timeout tmpdir tz uidmap umask unsetenv variant volumepath
"""
"""Podman takes most of its global options behind `run`, too."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the table says of an option."""

    flag: bool
    """Whether it takes a value only as `--flag=value`."""
    engines: frozenset[str]


def _row(names: str, engines: str, *, flag: bool = False) -> dict[str, Known]:
    return {f"--{name}": Known(flag, frozenset(engines.split())) for name in names.split()}


KNOWN: Final = {
    **_row(_FLAGS_OF_BOTH, "docker podman", flag=True),
    **_row(_FLAGS_OF_DOCKER, "docker", flag=True),
    **_row(_FLAGS_OF_PODMAN, "podman", flag=True),
    **_row(_FLAGS_OF_SPOTRUN, "", flag=True),
    **_row(_VALUES_OF_BOTH, "docker podman"),
    **_row(_VALUES_OF_DOCKER, "docker"),
    **_row(_VALUES_OF_PODMAN, "podman"),
}
SHORT: Final = {
    "a": "--attach", "c": "--cpu-shares", "d": "--detach", "e": "--env", "h": "--hostname",
    "i": "--interactive", "l": "--label", "m": "--memory", "p": "--publish",
    "P": "--publish-all", "q": "--quiet", "t": "--tty", "u": "--user", "v": "--volume",
    "w": "--workdir",
}  # fmt: skip
ALIASES: Final = {
    "--dns-opt": "--dns-option", "--net": "--network", "--net-alias": "--network-alias",
    "--healthcheck-command": "--health-cmd", "--healthcheck-interval": "--health-interval",
    "--healthcheck-retries": "--health-retries",
    "--healthcheck-start-period": "--health-start-period",
    "--healthcheck-timeout": "--health-timeout", "--override-arch": "--arch",
    "--override-os": "--os", "--override-variant": "--variant",
}  # fmt: skip
"""Names that engines take and do not show."""
YES: Final = frozenset(("true", "1", "t", "T", "TRUE", "True"))
NO: Final = frozenset(("false", "0", "f", "F", "FALSE", "False"))
"""What Go's strconv.ParseBool takes, and so the engines."""
_FIRST_RUN_ONLY: Final = frozenset(
    "--attach --authfile --cert-dir --cidfile --conmon-pidfile --creds --decryption-key --detach"
    " --detach-keys --env --env-file --env-host --env-merge --name --passwd --pidfile"
    " --pod-id-file --preserve-fd --preserve-fds --pull --quiet --replace --retry --retry-delay"
    " --rmi --sig-proxy --tls-verify --unsetenv --unsetenv-all".split()
)
"""Options of the moment of the first run: terminal, files of that host, registry, name.

The environment is among them because the snapshot knows the values it came to.
"""


@dataclass(frozen=True, slots=True)
class Option:
    """One option by its long name where the table has it; no value: it is a flag."""

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
        return self.value not in NO


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
    """Return the options before an image, if there is one."""
    return [option for found, _ in _walk(words) for option in found]


def value(words: Sequence[str], name: str) -> str | None:
    """Return the last value given to an option, or None."""
    values = [option.value for option in options(words) if option.name == name]
    return values[-1] if values else None


def flag(words: Sequence[str], name: str) -> bool:
    """Tell whether a flag is set in the end."""
    found = [option.on for option in options(words) if option.name == name]
    return bool(found) and found[-1]


def lasts(option: Option) -> bool:
    """Tell whether an option holds for the container's whole life, on any host."""
    return option.name not in _FIRST_RUN_ONLY


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
    given, equals, text = word.partition("=")
    name = ALIASES.get(given, given)
    if equals or _is_flag(name):
        return [Option(name, text if equals else None)], 1
    return [Option(name, _needed(name, following))], 2


def _parse_short(word: str, following: str | None) -> tuple[list[Option], int]:
    """Read `-it`, `-eA=1`, `-p 80:80`, `-itv /a:/b`, `-d=false` as pflag does."""
    found: list[Option] = []
    for at, letter in enumerate(word[1:], start=1):
        name, rest = SHORT.get(letter, f"-{letter}"), word[at + 1 :]
        if rest.startswith("=") and rest != "=":
            return [*found, Option(name, rest[1:])], 1
        if not _is_flag(name):
            text = rest or _needed(name, following)
            return [*found, Option(name, text)], 1 if rest else 2
        found.append(Option(name))
    return found, 1


def _is_flag(name: str) -> bool:
    return name in KNOWN and KNOWN[name].flag


def _needed(name: str, following: str | None) -> str:
    if following is None:
        raise UsageError(message=f"option {name} needs a value")
    return following
