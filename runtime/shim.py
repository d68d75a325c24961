"""The OCI runtime that engines call: runc, except that a create can be a restore.

    create  of a container whose annotation names a plan: `runc restore` in place of `runc create`
    start   of a container that was restored: nothing, it runs already
    all else: runc takes this process's place

Every call of the engine pays for this module, so it uses the standard library only and imports
as little of it as it can; it is loaded without the rest of the package.
"""

import os
import sys

RUNTIME = "runc"
ANNOTATION = "io.spotrun.restore"
CRIU_ANNOTATION = "org.criu.config"
_GLOBALS_WITH_VALUE = frozenset(("--log", "--log-format", "--root", "--criu", "--rootless"))


def main(arguments: list[str] | None = None) -> None:
    """Serve one call; `SPOTRUN_RUN` names the run folder."""
    words = sys.argv[1:] if arguments is None else arguments
    at = _verb(words)
    verb = words[at] if at < len(words) else ""
    if verb == "create":
        bundle = _value(words, "--bundle", "-b") or "."
        plan = _plan(bundle)
        if plan:
            sys.exit(_restore(words, at, bundle, plan))
    elif verb == "start" and _was_restored(words[-1]):
        return
    os.execvp(RUNTIME, [RUNTIME, *words])


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


def _plan(bundle: str) -> str | None:
    """Return the plan that the bundle's annotation names, if it is still to be done."""
    with open(os.path.join(bundle, "config.json"), "rb") as file:
        raw = file.read()
    if ANNOTATION.encode() not in raw:
        return None
    import json

    path = (json.loads(raw).get("annotations") or {}).get(ANNOTATION)
    return path if path and os.path.exists(path) else None


def _mark(container: str) -> str:
    return os.path.join(os.environ.get("SPOTRUN_RUN", "/run/spotrun"), "restored", container)


def _was_restored(container: str) -> bool:
    try:
        os.unlink(_mark(container))
    except FileNotFoundError:
        return False
    return True


def _restore(words: list[str], at: int, bundle: str, path: str) -> int:
    """Restore as the plan says; the plan becomes the mark that `start` looks for."""
    import json
    import subprocess

    with open(path, "rb") as file:
        plan = json.load(file)
    config = os.path.join(bundle, "config.json")
    with open(config, "rb") as file:
        spec = json.load(file)
    for mount in spec["mounts"]:
        if "bind" in mount.get("options", ()) or "rbind" in mount.get("options", ()):
            # CRIU cannot bind a file through a symbolic link (podman's --init has one)
            mount["source"] = os.path.realpath(mount["source"])
    sources = {mount["destination"]: mount["source"] for mount in spec["mounts"]}
    for tree in plan["mounts"]:
        _fill(sources[tree["destination"]], tree["unpack"])
    spec["annotations"][CRIU_ANNOTATION] = plan["criu_config"]
    with open(config, "w", encoding="utf-8") as file:
        json.dump(spec, file)
    container = words[-1]
    argv = [RUNTIME, *words[:at], "restore", "--detach", *words[at + 1 : -1]]
    argv += ["--image-path", plan["images"], "--work-path", plan["work"], container]
    status = subprocess.run(argv, check=False).returncode
    if status == 0:
        os.rename(path, _mark(container))
    return status


def _fill(folder: str, unpack: list[str]) -> None:
    """Replace what a fresh mount holds (an image's files in a new volume) by the snapshot's."""
    import shutil
    import subprocess

    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    subprocess.run([*unpack, f"--directory={folder}"], check=True)


if __name__ == "__main__":
    main()
