"""Whether this host is fit to freeze and restore containers, and what to do if not."""

import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spotrun.images.errors import HostUnfit, SpotrunError
from spotrun.images.process import Runner
from spotrun.runtime import facts
from spotrun.runtime.engine import Engine

_OLDEST_KERNEL: Final = "5.10"
_OLDEST_RUNC: Final = "1.1"
_ENGINE: Final = "engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found."""

    name: str
    ok: bool
    found: str
    """A clause, or for what is fit just its version."""
    fix: str = ""
    """What to do, as an imperative clause; empty for what is fit."""


def examine(runner: Runner, engine_version: Callable[[], str], *, thorough: bool) -> list[Finding]:
    """Check everything; unless thorough, leave out what takes longer than a version query.

    Without root only what any user may ask is asked.
    """
    rights = _rights()
    with ThreadPoolExecutor() as asking:  # each waits for a child process
        criu = asking.submit(_criu, runner)
        others = [asking.submit(_runc, runner)]
        others += [asking.submit(_engine, engine_version)] if rights.ok else []
        others += [
            asking.submit(_cgroups),
            asking.submit(_tar, runner),
            asking.submit(_ssh, runner),
        ]
        findings = [rights, _kernel(), criu.result()]
        if thorough and rights.ok and criu.result().ok:
            findings.append(_criu_check(runner))
        return findings + [it.result() for it in others]


def engines(findings: Sequence[Finding], engine: Engine, other: Engine | None) -> list[Finding]:
    """Add whether the engine knows the shim, and what there is beside it."""
    found = []
    for finding in findings:
        if finding.name == _ENGINE:
            mark = "; new jobs go to it" if other else ""
            found += [replace(finding, found=f"{finding.found}{mark}"), *_shim(finding, engine)]
            found += [_beside(other)] if other else []
        else:
            found.append(finding)
    return found


def _shim(finding: Finding, engine: Engine) -> list[Finding]:
    """Return the fault of an engine that works and was not told of the shim."""
    if not finding.ok or engine.knows_shim():
        return []
    reason = f"{engine.name} does not know spotrun's OCI runtime"
    return [_unfit("OCI runtime", reason, "run `spotrun install`")]


def _beside(engine: Engine) -> Finding:
    """Say what the engine is that new jobs do not go to; it need not be fit."""
    try:
        version, known = engine.version(), engine.knows_shim()
    except SpotrunError:
        found = f"{engine.name} does not answer; only jobs that are on it need it"
        return _fit("other engine", found)
    unknown = "; it can have jobs after `spotrun install`"
    return _fit("other engine", version if known else version + unknown)


def require(findings: Sequence[Finding]) -> None:
    """Raise HostUnfit with the first fault and its fix in one sentence."""
    for finding in findings:
        if not finding.ok:
            raise HostUnfit(message=f"{finding.found}; {finding.fix}")


def criu_needed(kernel: tuple[int, ...]) -> str:
    """Return the oldest CRIU that works on a kernel.

    Since kernel 6.16 CRIU before 4.2 can save no inet socket (criu#2705, #2718), and 3.17 does
    not even start.
    """
    return "4.2" if kernel >= (6, 16) else "4.0"


def _rights() -> Finding:
    user = os.geteuid()
    if user == 0:
        return _fit("root", "user id 0")
    return _unfit("root", f"user id {user} is not root", "run spotrun as root, e.g. with sudo")


def _kernel() -> Finding:
    release = platform.release()
    if facts.kernel_version() >= facts.version_tuple(_OLDEST_KERNEL):
        return _fit("kernel", release)
    fix = f"boot a kernel of version {_OLDEST_KERNEL} or newer"
    return _unfit("kernel", f"kernel {release} is too old", fix)


def _criu(runner: Runner) -> Finding:
    version, needed = facts.criu_version(runner), criu_needed(facts.kernel_version())
    fix = f"install CRIU {needed} or newer (on Debian: the package criu of sid)"
    if version is None:
        return _unfit("CRIU", "CRIU is not installed or does not start", fix)
    if facts.version_tuple(version) < facts.version_tuple(needed):
        found = f"CRIU {version} is too old for kernel {platform.release()}"
        return _unfit("CRIU", found, fix)
    return _fit("CRIU", version)


def _criu_check(runner: Runner) -> Finding:
    done = runner.run(["criu", "check"])
    if done.status == 0:
        return _fit("criu check", done.said)
    fix = "run `criu check -v4` and turn on in the kernel what it names"
    return _unfit("criu check", f"`criu check` says: {done.said}", fix)


def _runc(runner: Runner) -> Finding:
    version = facts.runc_version(runner)
    if version is None:
        return _unfit("runc", _instead_of_runc(runner), "run `apt-get install runc`")
    if facts.version_tuple(version) < facts.version_tuple(_OLDEST_RUNC):
        fix = f"install runc {_OLDEST_RUNC} or newer"
        return _unfit("runc", f"runc {version} is too old", fix)
    return _fit("runc", version)


def _instead_of_runc(runner: Runner) -> str:
    """Say what is there in place of runc, and that it is not enough."""
    if runner.run(["crun", "--version"]).status != 0:
        return "runc is not installed"
    libraries = runner.run(["ldconfig", "-p"])
    if libraries.status == 0 and "libcriu.so.2" not in libraries.stdout:
        return "only crun is installed, which cannot freeze a container: it lacks libcriu.so.2"
    return "only crun is installed, but spotrun freezes through runc"


def _engine(version: Callable[[], str]) -> Finding:
    try:
        return _fit(_ENGINE, version())
    except SpotrunError as error:
        fix = "install Podman with `apt-get install podman`, and see that `podman info` works"
        if error.fields.get("engine") == "docker":
            fix = "start Docker's daemon; `docker info` says whether it runs"
        return _unfit(_ENGINE, str(error), fix)


def _cgroups() -> Finding:
    layout = facts.cgroup_layout(Path("/proc/self/mountinfo").read_text())
    if layout == "none":
        fix = "run `mount -t cgroup2 none /sys/fs/cgroup`"
        return _unfit("cgroups", "no cgroup file system is mounted", fix)
    if layout == "hybrid":
        return _fit("cgroups", "hybrid; a plain cgroup2 on /sys/fs/cgroup is what works best")
    return _fit("cgroups", layout)


def _tar(runner: Runner) -> Finding:
    said = runner.run(["tar", "--version"]).stdout.partition("\n")[0]
    if "GNU tar" in said:
        return _fit("tar", said)
    return _unfit("tar", "GNU tar is not installed", "run `apt-get install tar`")


def _ssh(runner: Runner) -> Finding:
    done = runner.run(["ssh", "-V"])
    if done.status == 0:
        return _fit("ssh", done.said)
    return _fit("ssh", "not installed; only `spotrun migrate` needs it")


def _fit(name: str, found: str) -> Finding:
    return Finding(name=name, ok=True, found=found)


def _unfit(name: str, found: str, fix: str) -> Finding:
    return Finding(name=name, ok=False, found=found, fix=fix)
