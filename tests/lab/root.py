"""The root file system of the hosts: Debian 13 with both engines and a CRIU that works.

Debian 13's own CRIU cannot dump a socket on kernel 6.16 and later; a newer one, and only it with
the libraries it needs, comes from backports or, where those lack it, from unstable.
"""

import platform
import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.lab import apt
from tests.lab.cache import built
from tests.lab.shell import call

REPOSITORY = Path(__file__).resolve().parents[2]
_SUITE = "trixie"
_PYTHON = "3.13"
_PACKAGES = (
    "podman netavark aardvark-dns docker.io docker-cli runc crun criu libcriu2 catatonit iptables"
    " nftables iproute2 iputils-ping openssh-server openssh-client tar procps psmisc python3"
    " python3-venv ca-certificates busybox-static docker-registry checkpointctl slurmctld slurmd"
    " slurm-client munge sudo"
)
_NEWER = "criu libcriu2 libcompel1 libnl-3-200"
_PINS = f"""\
Package: *
Pin: release a=unstable
Pin-Priority: 100

Package: {_NEWER}
Pin: release a=unstable
Pin-Priority: 600

Package: {_NEWER}
Pin: release n={_SUITE}-backports
Pin-Priority: 700
"""
_SSH = """\
Host *
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
"""
_CONTAINERS = """\
[containers]
pids_limit = 0
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""
# its mounts and processes go when it is killed, or this process is
_CONTAINED = (
    "setpriv --pdeathsig=KILL unshare --mount --pid --mount-proc --fork --kill-child".split()
)
_LAUNCHER = """\
#!/opt/spotrun/venv/bin/python
import sys
from {module} import {function}
sys.exit({function}())
"""


def root() -> Path:
    """Return the root, built now if it never was."""
    project = _project()
    recipe = Path(__file__).read_text() + platform.machine()
    recipe += repr((project["dependencies"], project["scripts"]))
    return built("root", recipe, _build)


def debootstrap(folder: Path, suite: str, packages: str, *sources: str) -> None:
    """Make a root of Debian packages, without documents and translations."""
    excluded = ("man", "doc", "locale", "info")
    options = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in excluded]
    options += [f"--aptopt={line}" for line in apt.proxies()]
    call(
        *_CONTAINED,
        "mmdebstrap",
        "--mode=root",
        "--variant=apt",
        f"--keyring={apt.mirror().keyring}",
        '--aptopt=Apt::Install-Recommends "false"',
        "--dpkgopt=force-unsafe-io",
        "--setup-hook=mkdir -p $1/etc/apt/preferences.d",
        f"--setup-hook=cat > $1/etc/apt/preferences.d/newer <<'END'\n{_PINS}END",
        f"--include={','.join(packages.split())}",
        *options,
        suite,
        folder,
        *sources,
        timeout=1200,
    )


def pip(target: Path, python: str, *requirements: str) -> None:
    """Install wheels for another Python than this one."""
    tag = f"cp{python.replace('.', '')}"
    platforms = [f"manylinux_2_{minor}_{platform.machine()}" for minor in (28, 27, 17, 5)]
    platforms += [f"manylinux2014_{platform.machine()}"]
    where = [f"--platform={name}" for name in platforms]
    which = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
    abi = [f"--abi={tag}", "--abi=abi3", "--abi=none"]
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", f"--target={target}"]
    call(*argv, *where, *which, *abi, *requirements, timeout=1800)


def _build(folder: Path) -> None:
    mirror = apt.mirror()
    sources = [mirror.source(_SUITE), mirror.source("sid", lags=True)]
    if mirror.has(f"{_SUITE}-backports"):
        sources.append(mirror.source(f"{_SUITE}-backports", lags=True))
    debootstrap(folder, _SUITE, _PACKAGES, *sources)
    for path in ("etc/apt/sources.list", "etc/apt/preferences.d/newer"):
        (folder / path).unlink(missing_ok=True)
    _configure(folder)
    _install_spotrun(folder)


def _configure(folder: Path) -> None:
    (folder / "etc/containers").mkdir(exist_ok=True)
    (folder / "etc/containers/containers.conf").write_text(_CONTAINERS)
    (folder / "etc/resolv.conf").write_text("# hosts know each other by /etc/hosts\n")
    (folder / "etc/ssh/ssh_config.d/lab.conf").write_text(_SSH)
    keys = folder / "root/.ssh"
    keys.mkdir(mode=0o700, exist_ok=True)
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / "id_ed25519")
    (keys / "authorized_keys").write_text((keys / "id_ed25519.pub").read_text())
    for mountpoint in ("opt/spotrun/src", "var/lib/spotrun", "var/lib/lab-images", "mnt/machine"):
        (folder / mountpoint).mkdir(parents=True, exist_ok=True)


def _install_spotrun(folder: Path) -> None:
    """Install the dependencies; the code itself is bind-mounted when a host starts."""
    call("chroot", folder, "python3", "-m", "venv", "--without-pip", "/opt/spotrun/venv")
    packages = folder / f"opt/spotrun/venv/lib/python{_PYTHON}/site-packages"
    pip(packages, _PYTHON, *_project()["dependencies"])
    call("chroot", folder, "python3", "-m", "compileall", "-q", "/opt/spotrun/venv")
    (packages / "spotrun.pth").write_text("/opt/spotrun/src\n")
    for name, entry in _project()["scripts"].items():
        module, _, function = entry.partition(":")
        launcher = folder / "usr/local/bin" / name
        launcher.write_text(_LAUNCHER.format(module=module, function=function))
        launcher.chmod(0o755)


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return project
