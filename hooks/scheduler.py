"""Schedulers that bring the next machine: which one has started this process, and as which job.

A scheduler's own name for a job stays when it starts the job again elsewhere, so spotrun's job is
named after it. Exit code 85 has all of them do so; docs/schedulers.md says what they must be told.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from spotrun.images.errors import ExitCode, UsageError
from spotrun.images.process import Completed, Runner

_ODD: Final = re.compile(r"[^a-zA-Z0-9_.-]")
_LONGEST: Final = 128
_DIGEST: Final = 12
_DIGESTED: Final = re.compile(rf"\.[0-9a-f]{{{_DIGEST}}}")
_ATTRIBUTE: Final = re.compile(r'^(\w+) = "?(.*?)"?$', re.MULTILINE)
_CONFIGURATION: Final = ("scontrol", "show", "config")
_PATIENCE: Final = 10.0
"""Seconds for an answer of the scheduler: its host is about to vanish."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """The one that has started this process."""

    name: str
    identity: str
    """The job's name: valid as such, the same on every machine, and no other job's."""
    restarts: int | None = None
    """How often the job has been started again; None: nobody counts."""
    requeue: tuple[str, ...] = ()
    """Command that has Slurm start the job again where exit code 85 does not."""

    def leave(self, runner: Runner) -> str:
        """Have the job started elsewhere once this process ends with 85; say what is in the way.

        Only to be called when everything is stored: the scheduler may end this process at once.
        """
        if not self.requeue or _requeues(ExitCode.PREEMPTED, _run(runner, _CONFIGURATION).stdout):
            return ""
        done = _run(runner, self.requeue)
        return f"Slurm does not start {self.identity} again: {done.said}" if done.status else ""


def detect(environment: Mapping[str, str]) -> Scheduler | None:
    """Return the scheduler whose variables are there; of two, the one that is around the other."""
    here = [name for name, (variables, _) in _KNOWN.items() if environment.get(variables[0])]
    return _made(here[0], environment) if here else None


def named(name: str, environment: Mapping[str, str]) -> Scheduler | None:
    """Return what a user asks for by one of NAMES; UsageError if it is not here."""
    if name == "none":
        return None
    if name == "auto":
        return detect(environment)
    return _made(name, environment)


def _skypilot(environment: Mapping[str, str]) -> Scheduler:
    return Scheduler("skypilot", _job_name("skypilot", environment["SKYPILOT_TASK_ID"]))


def _slurm(environment: Mapping[str, str]) -> Scheduler:
    job = environment["SLURM_JOB_ID"]  # which each task of an array has for itself
    return Scheduler(
        "slurm",
        _job_name("slurm", environment["SLURM_CLUSTER_NAME"], job),
        _count(environment.get("SLURM_RESTART_COUNT", "0")),
        requeue=("scontrol", "requeue", job),
    )


def _htcondor(environment: Mapping[str, str]) -> Scheduler:
    path = Path(environment["_CONDOR_JOB_AD"])
    try:
        ad = dict(_ATTRIBUTE.findall(path.read_text(errors="replace")))
    except OSError as error:
        raise UsageError(message=f"HTCondor's job ad {path}: {error.strerror}") from error
    if "GlobalJobId" not in ad:
        raise UsageError(message=f"HTCondor's job ad {path} has no GlobalJobId")
    # host#cluster.process#time of submission
    return Scheduler(
        "htcondor",
        _job_name("htcondor", *ad["GlobalJobId"].split("#")),
        _count(ad.get("NumJobStarts", "")),
    )


def _aws_batch(environment: Mapping[str, str]) -> Scheduler:
    attempt = _count(environment.get("AWS_BATCH_JOB_ATTEMPT", ""))
    return Scheduler(
        "aws-batch",
        _job_name("aws-batch", environment["AWS_BATCH_JOB_ID"]),
        None if attempt is None else attempt - 1,
    )


_KNOWN: Final[dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, str]], Scheduler]]]] = {
    "skypilot": (("SKYPILOT_TASK_ID",), _skypilot),  # which has Slurm among its clouds
    "slurm": (("SLURM_JOB_ID", "SLURM_CLUSTER_NAME"), _slurm),
    "htcondor": (("_CONDOR_JOB_AD",), _htcondor),
    "aws-batch": (("AWS_BATCH_JOB_ID",), _aws_batch),
}
NAMES: Final = ("auto", "none", *_KNOWN)
"""What `named` takes."""


def _made(name: str, environment: Mapping[str, str]) -> Scheduler:
    variables, make = _KNOWN[name]
    missing = [it for it in variables if not environment.get(it)]
    if missing:
        raise UsageError(
            message=f"{name} has not started this process, or its {' and '.join(missing)} got lost"
            " on the way, as through sudo"
        )
    return make(environment)


def _job_name(*parts: str) -> str:
    """Return a valid name, of which none but these parts is the origin."""
    plain = "-".join(parts)
    name = _ODD.sub("-", plain)
    if name == plain and len(name) <= _LONGEST and not _DIGESTED.fullmatch(name[-_DIGEST - 1 :]):
        return name
    origin = blake2b(plain.encode(errors="surrogateescape"), digest_size=_DIGEST // 2)
    return f"{name[: _LONGEST - _DIGEST - 1]}.{origin.hexdigest()}"


def _count(word: str) -> int | None:
    return int(word) if word.isdecimal() else None


def _run(runner: Runner, argv: tuple[str, ...]) -> Completed:
    try:
        return runner.run(argv, timeout=_PATIENCE)
    except TimeoutError as late:
        return Completed(1, stderr=str(late))


def _requeues(code: int, configuration: str) -> bool:
    """Tell whether Slurm's configuration has a job that ends with that code started again."""
    found = re.search(r"^RequeueExit\s*=\s*([\d,-]+)", configuration, re.MULTILINE)
    ranges = [it.partition("-") for it in found[1].split(",") if it] if found else []
    return any(int(low) <= code <= int(high or low) for low, _, high in ranges)
