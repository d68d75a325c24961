"""The restore of a container for the shim: a `create` becomes a `runc restore`.

A snapshot's processes know the mounts, the network and the cgroup namespace that they had. The
engine has made those of here, and its bundle says what they are; this makes the two one. Like
shim.py it uses the standard library only, and is loaded without the rest of the package.
"""

import json
import os
import shutil
import subprocess
from typing import Any, NamedTuple

RUNTIME = "runc"
CRIU = "criu"
CRIU_ANNOTATION = "org.criu.config"
APART = "SPOTRUN_APART"
_PRIVATE = frozenset(("private", "rprivate"))
_SET = 'set -e; for it; do echo "${it#*=}" >"/proc/sys/${it%%=*}"; done'
Mount = dict[str, Any]


class Call(NamedTuple):
    """The engine's call of `create`, and where what belongs to it is."""

    program: str
    """The shim, as it was called."""
    words: list[str]
    at: int
    """Of the verb among the words."""
    bundle: str
    plan: str
    """The file that says what to restore."""
    mark: str
    """What the plan becomes, for the `start` that follows."""
    network: str
    """Name for the network namespace, if there is none."""


def restore(call: Call) -> int:
    """Restore as the plan says; the plan becomes the mark that `start` looks for."""
    config = os.path.join(call.bundle, "config.json")
    with open(config, "rb") as file:
        spec = json.load(file)
    if APART not in os.environ:
        _name_network(spec["linux"]["namespaces"], call.network)
        _write(config, spec)
        _go_apart(call)
    with open(call.plan, "rb") as file:
        plan = json.load(file)
    spec["mounts"] = _mounts(plan["mounts"], spec["mounts"], call.bundle)
    spec["linux"]["maskedPaths"] = plan["masked_paths"]
    spec["linux"]["readonlyPaths"] = plan["readonly_paths"]
    spec["linux"]["sysctl"] = plan["sysctls"]
    spec["annotations"][CRIU_ANNOTATION] = plan["criu_config"]
    sources = {mount["destination"]: mount["source"] for mount in spec["mounts"]}
    for tree in plan["trees"]:
        _fill(sources[tree["destination"]], tree["unpack"])
    _set_sysctls(spec)
    _write(config, spec)
    *before, container = call.words
    argv = [RUNTIME, *before[: call.at], "restore", "--detach", *before[call.at + 1 :]]
    argv += ["--image-path", plan["images"], "--work-path", plan["work"], container]
    _take_no_blame()
    status = subprocess.run(argv, check=False, env=_environment(spec, call)).returncode
    if status == 0:
        os.rename(call.plan, call.mark)
    return status


def _go_apart(call: Call) -> None:
    """Begin again in a mount namespace of our own, which goes with us however we end.

    What is mounted for a restore must never be in the bundle as the engine sees it: it removes
    bundles with all that is in them.
    """
    os.environ[APART] = "yes"
    again = [os.path.abspath(call.program), *call.words]
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "slave", *again])


def _write(config: str, spec: dict[str, Any]) -> None:
    with open(config, "w", encoding="utf-8") as file:
        json.dump(spec, file)


def _set_sysctls(spec: dict[str, Any]) -> None:
    """Have a hook set those of the network, as runc does in a create: CRIU only enters it."""
    given = spec["linux"]["sysctl"].items()
    settings = [f"{key.replace('.', '/')}={value}" for key, value in given if key[:4] == "net."]
    for namespace in spec["linux"]["namespaces"]:
        if namespace["type"] == "network" and settings:
            argv = ["nsenter", f"--net={namespace['path']}", "sh", "-c", _SET, "sh", *settings]
            hooks = spec["hooks"] = spec.get("hooks") or {}
            hook = {"path": shutil.which("nsenter"), "args": argv}
            hooks["prestart"] = [*(hooks.get("prestart") or ()), hook]


def _take_no_blame() -> None:
    """Have the OOM score that CRIU takes for granted: it sets none that is 0.

    containerd's has one more than its parent.
    """
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("0")
    except OSError:  # it was raised by somebody who may, and this root may not
        pass


def _environment(spec: dict[str, Any], call: Call) -> dict[str, str]:
    """Return that for runc, which is to find the shim as CRIU if there is need of it."""
    if not any(it["type"] == "cgroup" for it in spec["linux"]["namespaces"]):
        return {**os.environ}
    folder = os.path.join(call.bundle, "spotrun-bin")
    os.mkdir(folder)
    os.symlink(os.path.abspath(call.program), os.path.join(folder, CRIU))
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def _mounts(saved: list[Mount], engines: list[Mount], bundle: str) -> list[Mount]:
    """Return the mounts that the processes know, with what the engine has for them here.

    Another engine mounts other things.
    """
    here = {mount["destination"]: mount for mount in engines}
    mounts = [
        {**mount, "source": _source(mount, here.get(mount["destination"]), bundle)}
        if _is_bind(mount)
        else mount
        for mount in saved
    ]
    _share([it for it in mounts if _is_bind(it) and not _PRIVATE & {*it["options"]}], bundle)
    return mounts


def _source(mount: Mount, here: Mount | None, bundle: str) -> str:
    if here is not None and here["type"] == "tmpfs":  # of Docker, where Podman binds one
        return _tmpfs(os.path.join(bundle, "spotrun-tmpfs"), here)
    found = here if here is not None and _is_bind(here) else mount
    # CRIU cannot bind a file through a symbolic link (podman's --init has one)
    source = os.path.realpath(str(found["source"]))
    if not os.path.exists(source):
        source = os.path.join(bundle, "spotrun-empty")  # like Podman's /run/.containerenv
        with open(source, "wb"):
            pass
    return source


def _share(mounts: list[Mount], bundle: str) -> None:
    """Have the sources under one shared mount, as Docker has its volumes at the source.

    CRIU makes the container's mounts its slaves again, all of them of the first one's group.
    """
    folders = [mount for mount in mounts if os.path.isdir(mount["source"])]
    if not folders:
        return
    base = os.path.commonpath([mount["source"] for mount in folders])
    place = os.path.join(bundle, "spotrun-shared")
    os.mkdir(place)
    _do("mount", "--rbind", base, place)
    _do("mount", "--make-rshared", place)
    for mount in folders:
        mount["source"] = os.path.normpath(place + mount["source"].removeprefix(base))


def _tmpfs(place: str, mount: Mount) -> str:
    os.mkdir(place)
    _do("mount", "-t", "tmpfs", "-o", ",".join(mount.get("options", ())), "tmpfs", place)
    return place


def _do(*argv: str) -> None:
    """Run a program, or raise OSError with the last line it said."""
    done = subprocess.run(argv, check=False, stderr=subprocess.PIPE)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(f"{argv[0]} failed: {said or done.returncode}")


def _is_bind(mount: Mount) -> bool:
    return not {"bind", "rbind"}.isdisjoint(mount.get("options", ()))


def _name_network(namespaces: list[dict[str, str]], place: str) -> None:
    """Make the network namespace that runc would make: CRIU only enters one that is there.

    Docker's hook furnishes it before the processes are restored.
    """
    for namespace in namespaces:
        if namespace["type"] == "network" and not namespace.get("path"):
            namespace["path"] = place
            with open(place, "wb"):
                pass
            _do("unshare", f"--net={place}", "true")


def _fill(folder: str, unpack: list[str]) -> None:
    """Replace what a fresh mount holds (an image's files in a new volume) by the snapshot's."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    _do(*unpack, f"--directory={folder}")
