"""The OCI runtime that engines call: runc, except that a create can be a restore.

    create  of a container whose annotation names a plan: `runc restore` in place of `runc create`
            of a job that is saved, stored or moved, or was restored by it: refused, a fresh start
            would lose its past; of one that is to be looked after and is not: refused
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

RUNTIME = "runc"
QUIET = "--log=/dev/null"
"""For a create whose engine wants no log: Podman shows the first line of stderr, which is to be the
error and no warning. A later --log counts."""
ANNOTATION = "io.spotrun.restore"
JOB_ANNOTATION = "io.spotrun.job"
CRIU_ANNOTATION = "org.criu.config"
CRIU = "criu"
PUBLISH = "publish"
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
            _refuse_afresh(job, _value(words, "--log"), restored=bool(plan))
            if CRIU_ANNOTATION not in notes:
                _note(words[-1], bundle, job)
        words = [QUIET, *words]
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
    found: dict[str, str] = parsed(raw).get("annotations") or {}
    return found


class _Parsing:
    """What CPython's scanner asks of who calls it (json/scanner.py)."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def parsed(raw: bytes) -> "dict[str, Any]":
    """Return the object that a JSON document is, or raise ValueError.

    The package `json` loads regular expressions, which take as long as Python's own start.
    """
    from _json import make_scanner

    context: Any = _Parsing
    text = raw.decode().strip()
    try:
        found, end = make_scanner(context)(text, 0)
    except (StopIteration, SystemError):  # the latter where `json`, with its error, is not loaded
        raise ValueError("this is no JSON") from None
    if end != len(text) or not isinstance(found, dict):
        raise ValueError("this is no JSON object")
    return found


def _is_name(job: str) -> bool:
    """Tell whether it can be the name of a job, and so of a file; anybody may write annotations."""
    return job[:1].isalnum() and os.sep not in job and "\0" not in job


def _refuse_afresh(job: str, log: str | None, *, restored: bool) -> None:
    """Exit if a job has a past or nobody to look after it, unless its user wants it so just now."""
    if _is_wanted_afresh(job):
        return
    record = _state("jobs", job)
    snapshot = record.get("parent")
    if snapshot or restored or _published(_state("journal", job)):
        on, afresh = f"restore {job}", f"restart {job}"
        if record.get("care"):
            on, afresh = f"run --job {job} …", f"run --fresh --job {job} …"
        said = (
            f"job {job!r} is saved{f' as {snapshot}' if snapshot else ''}: `spotrun {on}`"
            f" goes on with it, and `spotrun {afresh}` starts it afresh"
        )
    elif record.get("care") and not _is_looked_after(job):
        said = (
            f"nobody looks after job {job!r} any more: the command that made it,"
            f" `spotrun run --job {job} …`, goes on with it"
        )
    else:
        return
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
    return _is_locked(_run("afresh", job))


def _is_looked_after(job: str) -> bool:
    """Tell whether a supervisor of the job lives, and lets it begin here."""
    lease = _state("leases", job)
    may_begin = bool(lease) and not lease.get("barred")
    return may_begin and _is_locked(_run("supervisors", f"{job}.lock"))


def _is_locked(path: str) -> bool:
    import fcntl

    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _published(entry: "dict[str, Any]") -> bool:
    """Tell whether a transaction that was cut off, as by a power cut, may have saved a job."""
    records = entry.get("state", {}).get("records", ())
    return PUBLISH in {entry.get("phase"), *(record["name"] for record in records)}


def _state(folder: str, job: str) -> "dict[str, Any]":
    """Return what spotrun has written of a job, or nothing."""
    state = os.environ.get("SPOTRUN_STATE", "/var/lib/spotrun")
    try:
        with open(os.path.join(state, folder, f"{job}.json"), "rb") as file:
            return parsed(file.read())
    except (FileNotFoundError, ValueError):  # one that is damaged says nothing
        return {}


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


def _restored(words: list[str], at: int, bundle: str, plan: str) -> int:
    """Restore (shim_restore.py), and tell the engine why if that fails."""
    from importlib import import_module

    found = import_module(f"{__package__}.shim_restore" if __package__ else "shim_restore")
    call = found.Call(
        program=_program(),
        words=words,
        at=at,
        bundle=bundle,
        plan=plan,
        mark=_run("restored", words[-1]),
        network=_run("networks", words[-1]),
    )
    try:
        status: int = found.restore(call)
    except (OSError, ValueError, KeyError) as error:
        return _fail(f"restoring: {error}", _value(words, "--log"))
    return status


def _was_restored(container: str) -> bool:
    try:
        os.unlink(_run("restored", container))
    except FileNotFoundError:
        return False
    return True


def _be_criu(words: list[str]) -> None:
    """Become CRIU, in a new cgroup namespace: with `manage-cgroups=ignore` it makes none itself.

    The namespace's root is the cgroup that this process is in. runc puts it into the container's
    before it sends the request (`criu swrk FD`, criuSwrk in runc's libcontainer).
    """
    import select

    select.select([int(words[-1])], [], [])
    os.environ["PATH"] = os.environ["PATH"].partition(":")[2]
    os.execvp("unshare", ["unshare", "--cgroup", CRIU, *words])


def _forget_network(container: str) -> None:
    """Give back the name of a network namespace that a restore made."""
    place = _run("networks", container)
    if os.path.exists(place):
        import subprocess

        subprocess.run(["umount", "--lazy", place], check=False)
        os.unlink(place)
