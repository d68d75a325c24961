"""Containers that others started with the annotation of a job are taken on as jobs."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spotrun.hooks import oci
from spotrun.hooks.oci import JOB_ANNOTATION, Note
from spotrun.images.errors import EngineError, JobBusy, Refused, UsageError
from spotrun.images.process import program
from spotrun.images.runspec import RunSpec
from spotrun.runtime import engines, grammar, jobs, locks, options, rebuilt
from spotrun.runtime.dockerd import DOCKER
from spotrun.runtime.grammar import Option
from spotrun.runtime.host import Host
from spotrun.runtime.jobs import Job, Place
from spotrun.runtime.podman_service import client

if TYPE_CHECKING:
    from podman import PodmanClient

_STARTS: Final = frozenset(("run", "create"))
_NONE: Final = RunSpec(options=(), image="", command=())
_RUNTIMES: Final = frozenset(("runc", "spotrun", "spotrun-oci"))


@dataclass(frozen=True, slots=True)
class Adopted:
    """What became of a container that is to be a job."""

    job: str
    container: str
    """Its id."""
    refusal: str = ""
    """Why it is none."""


def adopt(host: Host, spec_of: Callable[[Host, str], RunSpec] | None = None) -> list[Adopted]:
    """Take on what hooks have noted; spotrun's own containers are noted too, and known already.

    `spec_of` returns the command line that makes a container of a host again.
    """
    outcomes = []
    for note in oci.notes(host.paths.notes):
        try:
            outcome = _taken_on(host, note, spec_of or run_spec)
        except (JobBusy, EngineError):  # then the note waits
            continue
        except Refused as error:
            outcome = Adopted(note.job, note.container, str(error))
        note.path.unlink(missing_ok=True)
        outcomes += [outcome] if outcome else []
    return outcomes


def _taken_on(host: Host, note: Note, spec_of: Callable[[Host, str], RunSpec]) -> Adopted | None:
    """Make the record; None: there is one, or the container is gone."""
    name = jobs.check_name(note.job)
    with locks.hold(host.paths.locks, name, "adopt", host.clock.now(), wait=False):
        record, there = jobs.load(host.paths, name), _engine_of(host, note.container)
        if there is None or (record and _container(host, record) == note.container):
            return None
        if record:
            _refuse_other(host, record)
        made = record or Job(name=name, run=_NONE, store=host.own_store)
        made = replace(
            made,
            run=spec_of(there, note.container),
            engine=there.engine.name,
            container=note.container,
        )
        jobs.save(host.paths, made)
        return Adopted(name, note.container)


def _engine_of(host: Host, container: str) -> Host | None:
    """Return the host with the engine that has a container; None: no engine has it."""
    others = [it for it in reversed(engines.NAMES) if program(it)]
    for name in dict.fromkeys((host.engine.name, *others)):
        there = host.on(name)
        if there.engine.find(container):
            return there
    return None


def _container(host: Host, record: Job) -> str | None:
    """Return the id of a job's container, if it has one."""
    found = host.on(record.engine).engine.find(record.container or record.name)
    return found.id if found else None


def _refuse_other(host: Host, record: Job) -> None:
    """Refuse a container that would be a second one of a job, or its start from the begin."""
    if record.is_stored:
        what = f"it is stored as {record.parent}: `spotrun restore {record.name}` goes on with it"
    elif record.place is Place.MOVED:
        what = f"it has moved to {record.target}"
    elif record.container is None or _container(host, record):
        what = "there is another one of that name"
    else:
        return
    raise UsageError(message=f"container of job {record.name!r}: {what}")


def run_spec(host: Host, container: str) -> RunSpec:
    """Return the command line that makes a container again, as far as it belongs to a job."""
    spec = (
        _of_docker(host, container) if host.engine.name == "docker" else _of_podman(host, container)
    )
    given = [it for it in grammar.options(spec.options) if not _of_its_starter(it)]
    return replace(spec, options=tuple(word for it in given for word in it.words))


def _of_its_starter(option: Option) -> bool:
    """Tell whether an option ties a container to a unit of systemd, or is spotrun's own now."""
    ours = option.name == "--annotation" and (option.value or "").startswith(f"{JOB_ANNOTATION}=")
    return ours or option.name in {"--cgroups", "--sdnotify"}


def _of_docker(host: Host, container: str) -> RunSpec:
    inspected = _docker(host, "container", container)
    return rebuilt.run_spec(inspected, _docker(host, "image", inspected["Image"]))


def _docker(host: Host, kind: str, name: str) -> dict[str, Any]:
    done = host.runner.run([*DOCKER, kind, "inspect", name])
    if done.status != 0:
        raise EngineError(engine="docker", reason=done.said)
    (found,) = json.loads(done.stdout)
    return dict(found)


def _of_podman(host: Host, container: str) -> RunSpec:
    """Take the words it was made by, if it was by words that mean the same anywhere."""
    with client(host.runner, host.paths) as api:
        attrs = api.containers.get(container).attrs
        runtime = Path(attrs["OCIRuntime"]).name
        if runtime not in _RUNTIMES:
            raise UsageError(
                message=f"container {attrs['Name']} was started by {runtime}, whose containers"
                " cannot be saved; start it with --runtime spotrun"
            )
        words = attrs["Config"].get("CreateCommand") or []
        at = next((at for at, word in enumerate(words) if word in _STARTS), None)
        spec = None if at is None else grammar.split(words[at + 1 :])
        if spec and options.settled(spec, Path("/nowhere")) == spec:
            return spec
        inspected = _compatible(api, f"/containers/{container}/json")
        image = _compatible(api, f"/images/{attrs['Image']}/json")
    return rebuilt.run_spec(inspected, image)


def _compatible(api: "PodmanClient", path: str) -> dict[str, Any]:
    """Ask the way that Docker would be asked."""
    response = api.api.get(path, compatible=True)
    response.raise_for_status()
    return dict(response.json())
