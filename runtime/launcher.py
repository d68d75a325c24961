"""The first start of a job, and what every container of a job gets."""

import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spotrun.images.errors import ExitCode, UsageError
from spotrun.images.manifest import RunSpec
from spotrun.images.opening import Address
from spotrun.runtime import grammar, jobs
from spotrun.runtime.engine import CRIU_ANNOTATION, JOB_LABEL
from spotrun.runtime.host import Host
from spotrun.runtime.paths import Paths

_SHIM: Final = """\
#!{python} -IS
import os, sys
os.environ["SPOTRUN_RUN"] = {run!r}
sys.path.append({folder!r})
import shim
shim.main()
"""
"""-I and -S: no environment, no site packages; a third of Python's start."""


def install(paths: Paths) -> None:
    """Put the shim where engines find it, if it is not there as it should be."""
    folder = Path(__file__).resolve().parent
    text = _SHIM.format(python=sys.executable, run=str(paths.run), folder=str(folder))
    if paths.shim.exists() and paths.shim.read_text() == text:
        return
    beside = paths.shim.with_suffix(".new")
    beside.write_text(text)
    beside.chmod(0o755)
    beside.rename(paths.shim)


def log_options(options: Sequence[str]) -> list[str]:
    """Return the option for a log that can move with the job, unless the user chose a driver."""
    return [] if grammar.value(options, "--log-driver") else ["--log-driver=k8s-file"]


@dataclass(frozen=True, slots=True)
class Started:
    """What became of `run`."""

    job: str
    container: str | None
    """Id of the running container; None: it was attached and has ended."""
    exit_code: int


def run(host: Host, spec: RunSpec, *, store: Address | None, silent: bool = False) -> Started:
    """Start a job with the engine's own `run`; the exit code is 85 if it was moved away."""
    given = grammar.value(spec.options, "--name")
    name = jobs.check_name(given or f"job-{secrets.token_hex(4)}")
    _refuse_stored(host, name)
    if store:
        host.store(
            store, make=True
        )  # what is wrong with it is better known now than when it counts
    install(host.paths)
    jobs.save(host.paths, jobs.Job(name=name, run=spec, store=store or host.own_store))
    own = [f"--label={JOB_LABEL}={name}", *log_options(spec.options)]
    own += [f"--annotation={CRIU_ANNOTATION}={host.paths.criu_config(name)}"]
    named = [] if given else [f"--name={name}"]
    arguments = [*own, *named, *spec.options, spec.image, *spec.command]
    status = host.engine.run(arguments, silent=silent)
    record = jobs.load(host.paths, name)
    if record and record.place is not jobs.Place.HERE:
        return Started(name, None, ExitCode.PREEMPTED)
    found = host.engine.find(name) if status == ExitCode.OWN_ERROR or silent else None
    if status == ExitCode.OWN_ERROR and found is None:
        jobs.forget(host.paths, name)
    return Started(name, found.id if found else None, status)


def _refuse_stored(host: Host, name: str) -> None:
    """Refuse a name whose job is only stored: a fresh start would put its past in doubt."""
    record = jobs.load(host.paths, name)
    if record and record.place is jobs.Place.STORED:
        raise UsageError(
            message=f"job {name!r} is stored as {record.parent}: `spotrun restore {name}` goes on"
            " with it; for a fresh start take another --name"
        )
