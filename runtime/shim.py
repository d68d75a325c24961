"""The OCI runtime that engines call: runc, except that a create can be a restore.

    create  of a container whose annotation names a plan: `runc restore` in place of `runc create`
            of a job that is saved, stored or moved, or was restored by it: refused, a fresh start
            would lose its past
    start   of a container that was restored: nothing, it runs already
    all else: runc takes this process's place

Called as `criu`, by a `runc restore` of its own, it becomes CRIU in a cgroup namespace.

Every call of the engine pays for this module, so it uses the standard library only and imports
as little of it as it can; it is loaded without the rest of the package.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Mount = dict[str, Any]

RUNTIME = "runc"
ANNOTATION = "io.spotrun.restore"
JOB_ANNOTATION = "io.spotrun.job"
CRIU_ANNOTATION = "org.criu.config"
CRIU = "criu"
APART = "SPOTRUN_APART"
PUBLISH = "publish"
_PRIVATE = frozenset(("private", "rprivate"))
_SET = 'set -e; for it; do echo "${it#*=}" >"/proc/sys/${it%%=*}"; done'
_GLOBALS_WITH_VALUE = frozenset(("--log", "--log-format", "--root", "--criu", "--rootless"))


def main(arguments: list[str] | None = None) -> None:
    """Serve one call; `SPOTRUN_RUN` and `SPOTRUN_STATE` name the folders."""
    words = sys.argv[1:] if arguments is None else arguments
    if os.path.basename(_program()) == CRIU:
        _be_criu(words)
    at = _verb(words)
    verb = words[at] if at < len(words) else ""
    if verb == "create":
        bundle = _value(words, "--bundle", "-b") or "."
        notes = _annotations(bundle)
        plan = os.path.basename(notes.get(ANNOTATION, ""))
        if plan and os.path.exists(_run("plans", plan)):
            sys.exit(_restored(words, at, bundle, _run("plans", plan)))
        job = notes.get(JOB_ANNOTATION, "")
        if _is_name(job):
            _refuse_afresh(job, bool(plan), _value(words, "--log"))
            if CRIU_ANNOTATION not in notes:
                _note(words[-1], bundle, job)
    elif verb == "start" and _was_restored(words[-1]):
        return
    elif verb == "delete":
        _forget_network(words[-1])
    os.execvp(RUNTIME, [RUNTIME, *words])


def _program() -> str:
    """Return what was called: the few lines of shell before this, see launcher.py."""
    return os.environ.get("SPOTRUN_SHIM", sys.argv[0])


def _verb(words: list[str]) -> int:
    """Return the index of the first word that is no global option."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _GLOBALS_WITH_VALUE else 1
    return at


def _value(words: list[str], *names: str) -> str | None:
    for at, word in enumerate(words):
        if word in names:
            return words[at + 1]
        name, given, value = word.partition("=")
        if given and name in names:
            return value
    return None


def _annotations(bundle: str) -> dict[str, str]:
    """Return those of a bundle, if any of ours may be among them."""
    with open(os.path.join(bundle, "config.json"), "rb") as file:
        raw = file.read()
    if ANNOTATION.encode() not in raw and JOB_ANNOTATION.encode() not in raw:
        return {}
    import json

    found: dict[str, str] = json.loads(raw).get("annotations") or {}
    return found


def _is_name(job: str) -> bool:
    """Tell whether it can be the name of a job, and so of a file; anybody may write annotations."""
    return job[:1].isalnum() and os.sep not in job and "\0" not in job


def _refuse_afresh(job: str, restored: bool, log: str | None) -> None:  # noqa: FBT001
    """Exit if a job has a past, unless its user wants a fresh start just now."""
    if _is_wanted_afresh(job):
        return
    snapshot = _state("jobs", job).get("parent")
    if not (snapshot or restored or _published(_state("journal", job))):
        return
    said = (
        f"job {job!r} is saved{f' as {snapshot}' if snapshot else ''}: `spotrun restore {job}`"
        f" goes on with it, and `spotrun restart {job}` starts it afresh"
    )
    sys.exit(_fail(said, log))


def _fail(said: str, log: str | None) -> int:
    """Say it as runc would, and return its exit status."""
    import json

    if log:
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps({"level": "error", "msg": said}) + "\n")
    sys.stderr.write(f"{said}\n")
    return 1


def _is_wanted_afresh(job: str) -> bool:
    """Tell whether a `spotrun restart` goes on, which locks its mark; a killed one does not."""
    import fcntl

    try:
        mark = os.open(_run("afresh", job), os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(mark, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(mark)
    return False


def _published(entry: "dict[str, Any]") -> bool:
    """Tell whether a transaction that was cut off, as by a power cut, may have saved a job."""
    records = entry.get("state", {}).get("records", ())
    return PUBLISH in {entry.get("phase"), *(record["name"] for record in records)}


def _state(folder: str, job: str) -> "dict[str, Any]":
    """Return what spotrun has written of a job, or nothing."""
    import json

    state = os.environ.get("SPOTRUN_STATE", "/var/lib/spotrun")
    try:
        with open(os.path.join(state, folder, f"{job}.json"), "rb") as file:
            found: dict[str, Any] = json.load(file)
    except (FileNotFoundError, ValueError):  # one that is damaged says nothing
        return {}
    return found


def _note(container: str, bundle: str, job: str) -> None:
    """Do for a container that others start what hooks do elsewhere, see hooks/oci.py."""
    import json

    config = os.path.join(bundle, "config.json")
    with open(config, "rb") as file:
        spec = json.load(file)
    state = os.environ.get("SPOTRUN_STATE", "/var/lib/spotrun")
    spec["annotations"][CRIU_ANNOTATION] = os.path.join(state, "criu", f"{job}.conf")
    with open(config, "w", encoding="utf-8") as file:
        json.dump(spec, file)
    os.makedirs(_run("adopt"), mode=0o700, exist_ok=True)
    note = _run("adopt", f"note.{container}")
    with open(note, "w", encoding="utf-8") as file:
        json.dump({"id": container, "annotations": {JOB_ANNOTATION: job}}, file)
    os.rename(note, f"{note}.json")


def _run(*names: str) -> str:
    return os.path.join(os.environ.get("SPOTRUN_RUN", "/run/spotrun"), *names)


def _was_restored(container: str) -> bool:
    try:
        os.unlink(_run("restored", container))
    except FileNotFoundError:
        return False
    return True


def _restored(words: list[str], at: int, bundle: str, path: str) -> int:
    """Restore, and tell the engine why if that fails."""
    try:
        return _restore(words, at, bundle, path)
    except (OSError, ValueError, KeyError) as error:
        return _fail(f"restoring: {error}", _value(words, "--log"))


def _restore(words: list[str], at: int, bundle: str, path: str) -> int:
    """Restore as the plan says; the plan becomes the mark that `start` looks for."""
    import json
    import subprocess

    with open(path, "rb") as file:
        plan = json.load(file)
    config = os.path.join(bundle, "config.json")
    with open(config, "rb") as file:
        spec = json.load(file)
    container = words[-1]
    if APART not in os.environ:
        _name_network(spec["linux"]["namespaces"], container)
        _write(config, spec)
        _go_apart(words)
    spec["mounts"] = _mounts(plan["mounts"], spec["mounts"], bundle)
    spec["linux"]["maskedPaths"] = plan["masked_paths"]
    spec["linux"]["readonlyPaths"] = plan["readonly_paths"]
    spec["linux"]["sysctl"] = plan["sysctls"]
    spec["annotations"][CRIU_ANNOTATION] = plan["criu_config"]
    sources = {mount["destination"]: mount["source"] for mount in spec["mounts"]}
    for tree in plan["trees"]:
        _fill(sources[tree["destination"]], tree["unpack"])
    _set_sysctls(spec)
    _write(config, spec)
    argv = [RUNTIME, *words[:at], "restore", "--detach", *words[at + 1 : -1]]
    argv += ["--image-path", plan["images"], "--work-path", plan["work"], container]
    _take_no_blame()
    status = subprocess.run(argv, check=False, env=_environment(spec, bundle)).returncode
    if status == 0:
        os.rename(path, _run("restored", container))
    return status


def _go_apart(words: list[str]) -> None:
    """Begin again in a mount namespace of our own, which goes with us however we end.

    What is mounted for a restore must never be in the bundle as the engine sees it: it removes
    bundles with all that is in them.
    """
    again = [sys.executable, "-IS", os.path.abspath(__file__), *words]
    os.environ[APART] = "yes"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "slave", *again])


def _write(config: str, spec: "dict[str, Any]") -> None:
    import json

    with open(config, "w", encoding="utf-8") as file:
        json.dump(spec, file)


def _set_sysctls(spec: "dict[str, Any]") -> None:
    """Have a hook set those of the network, as runc does in a create: CRIU only enters it."""
    import shutil

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


def _environment(spec: "dict[str, Any]", bundle: str) -> dict[str, str]:
    """Return that for runc, which is to find this program as CRIU if there is need of it."""
    if not any(it["type"] == "cgroup" for it in spec["linux"]["namespaces"]):
        return {**os.environ}
    folder = os.path.join(bundle, "spotrun-bin")
    os.mkdir(folder)
    os.symlink(os.path.abspath(_program()), os.path.join(folder, CRIU))
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def _be_criu(words: list[str]) -> None:
    """Become CRIU, in a new cgroup namespace: with `manage-cgroups=ignore` it makes none itself.

    The namespace's root is the cgroup that this process is in. runc puts it into the container's
    before it sends the request (`criu swrk FD`, criuSwrk in runc's libcontainer).
    """
    import select

    select.select([int(words[-1])], [], [])
    os.environ["PATH"] = os.environ["PATH"].partition(":")[2]
    os.execvp("unshare", ["unshare", "--cgroup", CRIU, *words])


def _mounts(saved: "list[Mount]", engines: "list[Mount]", bundle: str) -> "list[Mount]":
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


def _source(mount: "Mount", here: "Mount | None", bundle: str) -> str:
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


def _share(mounts: "list[Mount]", bundle: str) -> None:
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


def _tmpfs(place: str, mount: "Mount") -> str:
    os.mkdir(place)
    _do("mount", "-t", "tmpfs", "-o", ",".join(mount.get("options", ())), "tmpfs", place)
    return place


def _do(*argv: str) -> None:
    """Run a program, or raise OSError with the last line it said."""
    import subprocess

    done = subprocess.run(argv, check=False, stderr=subprocess.PIPE)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(f"{argv[0]} failed: {said or done.returncode}")


def _is_bind(mount: "Mount") -> bool:
    return not {"bind", "rbind"}.isdisjoint(mount.get("options", ()))


def _name_network(namespaces: list[dict[str, str]], container: str) -> None:
    """Make the network namespace that runc would make: CRIU only enters one that is there.

    Docker's hook furnishes it before the processes are restored.
    """
    for namespace in namespaces:
        if namespace["type"] == "network" and not namespace.get("path"):
            namespace["path"] = place = _run("networks", container)
            with open(place, "wb"):
                pass
            _do("unshare", f"--net={place}", "true")


def _forget_network(container: str) -> None:
    """Give back the name of a network namespace that a restore made."""
    place = _run("networks", container)
    if os.path.exists(place):
        import subprocess

        subprocess.run(["umount", "--lazy", place], check=False)
        os.unlink(place)


def _fill(folder: str, unpack: list[str]) -> None:
    """Replace what a fresh mount holds (an image's files in a new volume) by the snapshot's."""
    import shutil

    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    _do(*unpack, f"--directory={folder}")


if __name__ == "__main__":
    main()
