"""A scheduler is told from its variables, and its name for a job is the job's, everywhere."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.hooks.scheduler import NAMES, Scheduler, detect, named
from spotrun.images.errors import UsageError
from spotrun.images.process import Completed
from spotrun.runtime.jobs import check_name
from tests.fakes.runner import ScriptedRunner
from tests.lab.root import REPOSITORY

_SLURM = {"SLURM_CLUSTER_NAME": "lab", "SLURM_JOB_ID": "17"}
_TASK = "sky-managed-2026-12-02-03-28-45-123456_train_3-0"
_BATCH = "6c7a5bd0-61a2-4a39-9c4b-0f2f3f0b9b1e"
_AD = """\
ClusterId = 17
GlobalJobId = "submit.example.org#17.2#1796182125"
NumJobStarts = 3
Requirements = (TARGET.Arch == "X86_64")
"""
_SHOW = ("scontrol", "show", "config")
_REQUEUE = ("scontrol", "requeue", "17")


def _htcondor(folder: Path, ad: str) -> Mapping[str, str]:
    (folder / ".job.ad").write_text(ad)
    return {"_CONDOR_JOB_AD": str(folder / ".job.ad")}


def _identity(environment: Mapping[str, str]) -> str:
    found = detect(environment)
    assert found
    return check_name(found.identity)


def _told(exits: str) -> Completed:
    return Completed(0, f"PreemptMode = REQUEUE\nRequeueExit             = {exits}\nSLURM = 1\n")


@pytest.mark.parametrize(
    ("environment", "name", "identity", "restarts"),
    [
        (_SLURM, "slurm", "slurm-lab-17", 0),
        (_SLURM | {"SLURM_RESTART_COUNT": "2"}, "slurm", "slurm-lab-17", 2),
        ({"SKYPILOT_TASK_ID": _TASK}, "skypilot", f"skypilot-{_TASK}", None),
        ({"AWS_BATCH_JOB_ID": _BATCH}, "aws-batch", f"aws-batch-{_BATCH}", None),
        (
            {"AWS_BATCH_JOB_ID": _BATCH, "AWS_BATCH_JOB_ATTEMPT": "2"},
            "aws-batch",
            f"aws-batch-{_BATCH}",
            1,
        ),
    ],
)
def test_job_has_the_schedulers_name_for_it(
    environment: Mapping[str, str], name: str, identity: str, restarts: int | None
) -> None:
    """And nothing that changes with a machine."""
    found = detect({"PATH": "/bin", **environment})
    assert found == named(name, environment) == named("auto", environment)
    assert found
    assert (found.name, found.identity, found.restarts) == (name, identity, restarts)


def test_job_of_htcondor_is_told_by_its_ad(tmp_path: Path) -> None:
    """By all that makes it unique: two queues may have the same numbers."""
    found = named("htcondor", _htcondor(tmp_path, _AD))
    assert found == Scheduler("htcondor", "htcondor-submit.example.org-17.2-1796182125", 3)


@pytest.mark.parametrize("ad", [None, "", "ClusterId = 17\n", "\xff\x00"])
def test_ad_of_htcondor_that_says_nothing(tmp_path: Path, ad: str | None) -> None:
    """Better no job than one that begins anew on every machine."""
    environment = {"_CONDOR_JOB_AD": "/nonexistent"} if ad is None else _htcondor(tmp_path, ad)
    with pytest.raises(UsageError, match="HTCondor's job ad /"):
        detect(environment)


def test_outer_scheduler_is_the_one_that_counts() -> None:
    """SkyPilot may have asked a Slurm cluster for the machine, and the next one elsewhere."""
    assert _identity(_SLURM | {"SKYPILOT_TASK_ID": _TASK}).startswith("skypilot-")


@pytest.mark.parametrize("name", NAMES)
def test_no_scheduler(name: str) -> None:
    """Who names one, and is not its job, is told so."""
    if name in {"auto", "none"}:
        assert named(name, {"PATH": "/bin"}) is None
    else:
        with pytest.raises(UsageError, match=f"{name} has not started this process, or its [A-Z_]"):
            named(name, {"PATH": "/bin"})


def test_scheduler_that_is_not_wanted() -> None:
    """The job has a name of its own then."""
    assert named("none", _SLURM) is None


@pytest.mark.parametrize("variable", sorted(_SLURM))
def test_variable_that_got_lost(variable: str) -> None:
    """Is named, for two clusters have jobs of the same number."""
    with pytest.raises(UsageError, match=f"its {variable} got lost on the way, as through sudo"):
        named("slurm", _SLURM | {variable: ""})


@given(st.lists(st.text(min_size=1, max_size=200).filter(str.strip), min_size=2, max_size=8))
def test_any_identity_makes_a_valid_name_of_its_own(words: list[str]) -> None:
    """However odd and long it is."""
    names = {word: _identity({"AWS_BATCH_JOB_ID": word}) for word in words}
    assert len(set(names.values())) == len(names)


def test_names_that_would_look_the_same() -> None:
    """Also if one is what another one is mapped to."""
    words = ["job:1", "job 1", "job-1", "x" * 200, "x" * 201, "Ä", "Ö", "\udcff"]
    mapped = [_identity({"AWS_BATCH_JOB_ID": word}) for word in words]
    again = [_identity({"AWS_BATCH_JOB_ID": name.removeprefix("aws-batch-")}) for name in mapped]
    assert len({*mapped, *again}) == len(words) + len(words) - 1, "job-1 alone is its own name"
    assert again[2] == mapped[2]


@pytest.mark.parametrize("exits", ["85", "1-9,85", "80-90", "3,80-85,99"])
def test_slurm_that_heeds_the_exit_code_is_left_alone(exits: str) -> None:
    """To requeue a job kills it."""
    runner = ScriptedRunner({_SHOW: _told(exits)})
    assert _slurm().leave(runner) == ""
    assert runner.calls == [_SHOW]


@pytest.mark.parametrize("exits", ["(null)", "8", "185", "1-84,86-90"])
def test_slurm_that_does_not_is_told_to_requeue(exits: str) -> None:
    """Which needs nothing of its administrator."""
    runner = ScriptedRunner({_SHOW: _told(exits), _REQUEUE: Completed(0)})
    assert _slurm().leave(runner) == ""
    assert runner.calls == [_SHOW, _REQUEUE]


def test_slurm_that_does_not_start_it_again() -> None:
    """Somebody has to."""
    no = Completed(1, stderr="Requested operation is presently disabled for job 17\n")
    runner = ScriptedRunner({_SHOW: Completed(1, stderr="no"), _REQUEUE: no})
    said = _slurm().leave(runner)
    assert said.startswith("Slurm does not start slurm-lab-17 again: Requested operation is")


def test_slurm_that_does_not_answer() -> None:
    """It is not waited for until the host has vanished."""

    class Silent(ScriptedRunner):
        def run(self, argv: object, *, timeout: float | None = None, **_: object) -> Completed:
            assert timeout
            raise TimeoutError(f"{argv} took more than {timeout:g} s")

    assert "took more than 10 s" in _slurm().leave(Silent({}))


def test_others_heed_the_exit_code_by_what_they_were_given() -> None:
    """Nothing is asked."""
    found = named("skypilot", {"SKYPILOT_TASK_ID": _TASK})
    assert found
    assert found.leave(ScriptedRunner({})) == ""


def test_page_tells_all_that_can_be_named() -> None:
    """A line for each."""
    page = (REPOSITORY / "docs/schedulers.md").read_text()
    assert [name for name in NAMES if f"\n| `{name}` | " not in page] == []


def _slurm() -> Scheduler:
    found = named("slurm", _SLURM)
    assert found
    return found
