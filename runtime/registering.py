"""How spotrun's OCI runtime and hook become known to the engines of a host, and unknown again."""

import json
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from spotrun import hooks
from spotrun.hooks import oci
from spotrun.images.errors import EngineError, HostUnfit, Refused
from spotrun.images.process import Runner
from spotrun.runtime import facts, installing, launcher, locks
from spotrun.runtime.clock import Clock
from spotrun.runtime.dockerd import DOCKER, Dockerd
from spotrun.runtime.engines import RUNTIME
from spotrun.runtime.installing import Change, File, Member, Plan
from spotrun.runtime.paths import Paths

_OLDEST_PODMAN: Final = "5.0"
"""Before it containers.conf(5) has no `append`, without which other folders of hooks would go."""
_HOOKS: Final = "/etc/containers/oci/hooks.d"
_CONF: Final = "50-spotrun.conf"
_UNITS: Final = ("spotrun-agent.service", "spotrun@.service")
_PROGRAM: Final = "/usr/local/bin/spotrun"
"""What they start, as they are written."""
_PODMAN: Final = """\
# The OCI runtime and the folder of hooks that spotrun needs; `spotrun uninstall` removes this file.
[engine]
hooks_dir = ["{hooks}", {{append = true}}]
runtime_supports_json = ["{name}", "{program}", {{append = true}}]

[engine.runtimes]
{name} = ["{shim}"]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The host on which something is installed."""

    paths: Paths
    runner: Runner
    clock: Clock
    root: Path = Path("/")
    which: Callable[[str], str | None] = shutil.which

    def has(self, program: str) -> bool:
        """Tell whether it has a program."""
        return self.which(program) is not None

    def place(self, path: str) -> Path:
        """Return where a file of the host lies."""
        return self.root / path.lstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What `install` or `uninstall` did, or would do."""

    dry_run: bool
    changes: list[Change]
    notes: list[str]
    """What became of Docker's daemon, which keeps its configuration in memory."""


def install(site: Site, more: Sequence[File], *, dry_run: bool) -> Installed:
    """Register with the engines that are here, and add more files; what is right already stays."""
    dockerd = Dockerd.find(site.runner, site.root) if site.has("dockerd") else None
    with _alone(site, dry_run=dry_run):
        plan = installing.installation(site.paths, [*_wanted(site, dockerd), *more])
        notes = _carry_out(site, plan, dockerd, str(site.paths.shim), dry_run=dry_run)
    return Installed(dry_run=dry_run, changes=plan.changes, notes=notes)


def uninstall(site: Site, *, dry_run: bool) -> Installed:
    """Take back what `install` did, unless a container needs the runtime."""
    dockerd = Dockerd.find(site.runner, site.root) if site.has("dockerd") else None
    with _alone(site, dry_run=dry_run):
        plan = installing.removal(site.paths)
        _refuse_users(site, docker=dockerd is not None)
        if dockerd and str(dockerd.config.resolve()) not in plan.old:
            dockerd = None
        notes = _carry_out(site, plan, dockerd, None, dry_run=dry_run)
    return Installed(dry_run=dry_run, changes=plan.changes, notes=notes)


@contextmanager
def _alone(site: Site, *, dry_run: bool) -> Iterator[None]:
    """Wait for another install; one that only looks needs no folder for locks."""
    if dry_run:
        yield
        return
    now = site.clock.now()
    with locks.hold(site.paths.locks, "~~install", "install", now, wait=True):
        yield


def _wanted(site: Site, dockerd: Dockerd | None) -> Iterator[File | Member]:
    """Yield the runtime first, so that no engine knows of it before it is there."""
    shim = site.paths.shim
    content = launcher.shim(site.paths).encode()
    yield File(path=shim, content=content, mode=0o755, always_ours=True)
    if site.has("podman"):
        _check_podman(site)
        for name, content in oci.definitions(site.paths.notes, site.paths.criu).items():
            yield File(path=site.place(f"{_HOOKS}/{name}"), content=content)
        content = _PODMAN.format(hooks=_HOOKS, name=RUNTIME, shim=shim, program=shim.name).encode()
        conf = site.place(f"/etc/containers/containers.conf.d/{_CONF}")
        yield File(path=conf, content=content)
    if site.has("systemctl"):
        yield from _units(site)
    if dockerd:
        yield Member(path=dockerd.config, keys=("runtimes", RUNTIME), value={"path": str(shim)})


def _units(site: Site) -> Iterator[File]:
    """Yield units that nobody has enabled yet; each begins with a word on how."""
    program = site.which("spotrun") or str(Path(sys.executable).with_name("spotrun"))
    for name in _UNITS:
        text = (files(hooks) / "systemd" / name).read_text().replace(_PROGRAM, program)
        yield File(path=site.place(f"/etc/systemd/system/{name}"), content=text.encode())


def _check_podman(site: Site) -> None:
    """Refuse one that could not read the file, or has another runtime of that name."""
    ask = ["podman", "version", "--format", "{{.Client.Version}}"]
    version = site.runner.run(ask).stdout.strip()
    if version and facts.version_tuple(version) < facts.version_tuple(_OLDEST_PODMAN):
        raise HostUnfit(message=f"Podman {version} is too old; install {_OLDEST_PODMAN} or newer")
    folder = site.place("/etc/containers")
    for path in (folder / "containers.conf", *sorted(folder.glob("containers.conf.d/*.conf"))):
        if path.name != _CONF and path.exists():
            found = _runtime_of_podman(path)
            if found not in {None, str(site.paths.shim)}:
                raise Refused(message=f"{path} has another runtime {RUNTIME!r}: {found}; remove it")


def _runtime_of_podman(path: Path) -> str | None:
    """Return where a file of containers.conf(5) looks first for a runtime of our name."""
    try:
        runtimes = tomllib.loads(path.read_text()).get("engine", {}).get("runtimes", {})
    except ValueError:  # which Podman will say of it
        return None
    return next(iter(runtimes.get(RUNTIME, [])), None)


def _carry_out(
    site: Site, plan: Plan, dockerd: Dockerd | None, shim: str | None, *, dry_run: bool
) -> list[str]:
    """Apply the plan; return what became of dockerd, which is to know that shim, or none."""
    if dockerd is None:
        if not dry_run:
            plan.apply()
        return []
    content = plan.after(dockerd.config)
    if content is not None and plan.concerns(dockerd.config):
        dockerd.check(content)
    if not dry_run:
        plan.apply()
    if dockerd.pid is None:
        concerned = plan.concerns(dockerd.config)
        return [f"dockerd does not run; it reads {dockerd.config} when it starts"] * concerned
    known = dockerd.runtimes()
    if known is not None and known.get(RUNTIME) == shim:
        return []
    if shim is None and not _tells_runtimes(content):  # then it keeps those it knows
        return [f"dockerd knows the runtime {RUNTIME!r} until it starts anew; that does no harm"]
    if dry_run:
        return ["dockerd would read its configuration again"]
    dockerd.reload(RUNTIME, shim, site.clock)
    return ["dockerd has read its configuration again"]


def _tells_runtimes(content: bytes | None) -> bool:
    return content is not None and bool(content.strip()) and "runtimes" in json.loads(content)


def _refuse_users(site: Site, *, docker: bool) -> None:
    """Refuse while there is a container that could not start, stop or go without the runtime."""
    ours = {RUNTIME, str(site.paths.shim), site.paths.shim.name}
    found = []
    if site.has("podman"):
        found += _runtimes(site.runner, ("podman",), "{{.OCIRuntime}} {{.Name}}")
    if docker:
        found += _of_docker(site)
    if users := sorted(name.removeprefix("/") for runtime, name in found if runtime in ours):
        names = ", ".join(users)
        raise Refused(message=f"{names}: remove these containers first, they need the runtime")


def _of_docker(site: Site) -> list[tuple[str, str]]:
    """Return runtime and name of Docker's containers, by its files if it does not answer."""
    with suppress(EngineError):
        return _runtimes(site.runner, DOCKER, "{{.HostConfig.Runtime}} {{.Name}}")
    folder = site.place("/var/lib/docker/containers")
    found = {path.parent.name[:12]: _runtime_in(path) for path in folder.glob("*/hostconfig.json")}
    return [(runtime, name) for name, runtime in found.items() if runtime]


def _runtime_in(hostconfig: Path) -> str | None:
    """Return the runtime of a container; none if its file is broken: Docker does not load it."""
    try:
        found = json.loads(hostconfig.read_bytes())
    except (OSError, ValueError):
        return None
    return found.get("Runtime") if isinstance(found, dict) else None


def _runtimes(runner: Runner, engine: Sequence[str], fields: str) -> list[tuple[str, str]]:
    """Return runtime and name of every container of an engine."""
    listed = runner.run([*engine, "ps", "--all", "--quiet", "--no-trunc"])
    if listed.status != 0:
        raise EngineError(engine=engine[0], reason=listed.said)
    if not listed.stdout.split():
        return []
    # a container that is gone by now is missing in the output, which is as it should be
    done = runner.run([*engine, "inspect", "--format", fields, *listed.stdout.split()])
    words = [line.split() for line in done.stdout.splitlines()]
    return [(it[0], it[1]) for it in words if len(it) == 2]  # noqa: PLR2004 # the two fields
