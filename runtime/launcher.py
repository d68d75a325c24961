"""The first start of a job, and what every container of a job gets."""

import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spotrun.images.address import Address
from spotrun.images.care import Care
from spotrun.images.errors import EngineError, ExitCode, NameTaken
from spotrun.images.runspec import RunSpec
from spotrun.runtime import grammar, jobs, options
from spotrun.runtime.engine import CRIU_ANNOTATION, JOB_LABEL, Container
from spotrun.runtime.host import Host
from spotrun.runtime.paths import Paths
from spotrun.runtime.shim import QUIET

_SHIM: Final = r"""#!/bin/sh
# Python, which takes as long to start as runc, is for what may be a restore or is to be refused.
export SPOTRUN_RUN={run} SPOTRUN_STATE={state} SPOTRUN_SHIM="$0"
begins() {{ # whether a job is created that was never saved, and that nobody is to look after
    while [ $# -gt 1 ] && [ "$1" != --bundle ] && [ "$1" != -b ]; do shift; done
    notes=$(grep -oE '"(io\.spotrun\.[a-z]+|org\.criu\.config)":"[^"]*"' "$2/config.json") || return
    job=${{notes#'"io.spotrun.job":"'}}
    job=${{job%%'"'*}}
    case $job in *[!A-Za-z0-9_.-]*) return 1 ;; esac
    [ "$notes" = "\"io.spotrun.job\":\"$job\"
\"org.criu.config\":\"$SPOTRUN_STATE/criu/$job.conf\"" ] || return
    [ ! -e "$SPOTRUN_STATE/journal/$job.json" ] || return
    [ "$(grep -cE '^ "(care|parent)": null' "$SPOTRUN_STATE/jobs/$job.json")" = 2 ]
}}
for last; do :; done
case "${{0##*/}} $* " in
criu\ *) ;;
*' create '*) begins "$@" 2>/dev/null && exec runc {quiet} "$@" ;;
*) [ -e "$SPOTRUN_RUN/restored/$last" ] || [ -e "$SPOTRUN_RUN/networks/$last" ] || exec runc "$@" ;;
esac
exec {python} -IS -c 'import sys; sys.path.append(sys.argv.pop(1)); import shim; shim.main()' \
    {folder} "$@"
"""
"""-I and -S: no environment, no site packages; a third of Python's start."""


def shim(paths: Paths) -> str:
    """Return the program that engines call as their OCI runtime."""
    places = {
        "python": sys.executable,
        "folder": Path(__file__).resolve().parent,
        "quiet": QUIET,
        "run": paths.run,
        "state": paths.state,
    }
    return _SHIM.format(**{name: shlex.quote(str(place)) for name, place in places.items()})


def install(paths: Paths) -> None:
    """Put the shim where engines find it, if it is not there as it should be."""
    text = shim(paths)
    if paths.shim.exists() and paths.shim.read_text() == text:
        return
    beside = paths.shim.with_suffix(".new")
    beside.write_text(text)
    beside.chmod(0o755)
    beside.rename(paths.shim)


@dataclass(frozen=True, slots=True)
class Tended:
    """What is other with a job that has a supervisor."""

    epoch: int
    care: Care
    on_term: Callable[[], None]
    """What SIGTERM means while it is attached."""


@dataclass(frozen=True, slots=True)
class Started:
    """What became of `run`."""

    job: str
    container: str | None
    """Id of the running container; None: it was attached and has ended."""
    exit_code: int


def run(
    host: Host,
    spec: RunSpec,
    *,
    store: Address | None,
    silent: bool = False,
    verb: str = "run",
    tell: Callable[[str], None],
    tended: Tended | None = None,
) -> Started:
    """Make a job with the engine's own `run` or `create`; the exit code is 85 if it has left.

    `tell` takes lines for the user: what is not quite as the options say.
    """
    given = grammar.value(spec.options, "--name")
    name = jobs.check_name(given or f"job-{os.urandom(4).hex()}")
    jobs.refuse_stored(host.paths, name)
    options.refuse(name, spec.options)
    spec = options.settled(spec, Path.cwd())
    fitted = options.fit(host.engine, spec.options)
    if store:
        host.store(store, make=True)  # better to know now what is wrong with it
    install(host.paths)
    before = jobs.load(host.paths, name)
    taken = host.of(name).container(name) if before else None
    if taken and not grammar.flag(spec.options, "--replace"):
        raise NameTaken(name=name, where="this host", container=taken.id[:12])
    engine, store = host.engine, store or host.own_store
    job = jobs.Job(name=name, run=spec, store=store, engine=engine.name)
    if tended:
        job = replace(job, epoch=tended.epoch, care=tended.care)
    jobs.save(host.paths, job)
    for note in fitted.notes:
        tell(note)
    own = _own(host.paths, name, named=bool(given))
    words = [verb, *fitted.words, *own, spec.image, *spec.command]  # the last label counts
    try:
        status = engine.command(words, silent=silent, on_term=tended.on_term if tended else None)
    except EngineError:
        _take_back(host, name, before, taken)
        raise
    if status == ExitCode.OWN_ERROR or (status and verb == "create"):
        _take_back(host, name, before, taken)
    if jobs.has_left(host.paths, name):
        return Started(name, None, ExitCode.PREEMPTED)
    found = engine.find(name) if silent else None
    return Started(name, found.id if found else None, status)


def _own(paths: Paths, name: str, *, named: bool) -> list[str]:
    """Return the options that make a container a job; it gets a name if its user gave none."""
    return [
        *([] if named else [f"--name={name}"]),
        f"--label={JOB_LABEL}={name}",
        f"--annotation={JOB_LABEL}={name}",
        f"--annotation={CRIU_ANNOTATION}={paths.criu_config(name)}",
    ]


def _take_back(host: Host, name: str, before: jobs.Job | None, taken: Container | None) -> None:
    """Let the record be as it was before, unless there is a new container of that name."""
    try:
        found = host.engine.find(name)
    except EngineError:  # it does not answer, and has made none
        found = None
    if found and found.job == name and (taken is None or found.id != taken.id):
        return
    if before:
        jobs.save(host.paths, before)
    else:
        jobs.forget(host.paths, name)
