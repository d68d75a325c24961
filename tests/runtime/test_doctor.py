"""A host that lacks something is told so in one sentence, with what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spotrun.images.errors import EngineError, HostUnfit
from spotrun.images.process import Completed
from spotrun.runtime import doctor
from tests.fakes.engine import FakeEngine
from tests.fakes.oci import FakeOci
from tests.fakes.runner import ScriptedRunner

_NOBODY = 65534
_MISSING = Completed(127, stderr="command not found")
_EXAMINE_AS = """
import json, os, sys
from spotrun.images.process import SystemRunner
from spotrun.runtime import doctor
os.setuid(int(sys.argv[1]))
runner = SystemRunner({"PATH": "/usr/bin:/bin"})
findings = doctor.examine(runner, lambda: 1 / 0, thorough=True)
print(json.dumps([(it.name, it.ok, it.found) for it in findings]))
"""
_Script = dict[tuple[str, ...], Completed]
_FIT: _Script = {
    ("criu", "--version"): Completed(0, "Version: 99.1\n"),
    ("criu", "check"): Completed(0, "Looks good.\n"),
    ("runc", "--version"): Completed(0, "runc version 1.1.15+ds1\n"),
    ("tar", "--version"): Completed(0, "tar (GNU tar) 1.35\nCopyright\n"),
    ("ssh", "-V"): Completed(0, stderr="OpenSSH_9.2p1\n"),
}
_CRUN_ONLY: _Script = {
    ("runc", "--version"): _MISSING,
    ("crun", "--version"): Completed(0, "crun version 1.21\n"),
}


class _Untold(FakeEngine):
    name = "docker"

    def version(self) -> str:
        """Return that of a Docker."""
        return "docker 26.1.5"

    def knows_shim(self) -> bool:
        """Know it only after `spotrun install`."""
        return False


class _Dead(_Untold):
    def version(self) -> str:
        """Have no daemon."""
        raise EngineError(engine="docker", reason="no daemon")

    def knows_shim(self) -> bool:
        """Have no daemon."""
        raise EngineError(engine="docker", reason="no daemon")


def _engine() -> str:
    return "podman 5.4.2"


def _broken_engine() -> str:
    raise EngineError(engine="podman", reason="command not found")


def _findings(
    changes: _Script | None = None, *, thorough: bool = False
) -> dict[str, doctor.Finding]:
    """Examine this host as root would, its programs as scripted."""
    runner = ScriptedRunner({**_FIT, **(changes or {})})
    findings = doctor.examine(runner, _engine, thorough=thorough)
    return {finding.name: finding for finding in findings}


def _refusal(finding: doctor.Finding) -> str:
    with pytest.raises(HostUnfit) as refused:
        doctor.require([finding])
    return str(refused.value)


def test_fit_programs_are_found_with_their_versions() -> None:
    """What is fit needs no fix."""
    found = _findings()
    assert {found[name].found for name in ("CRIU", "runc", "tar", "ssh")} == {
        "99.1",
        "1.1.15",
        "tar (GNU tar) 1.35",
        "OpenSSH_9.2p1",
    }
    assert not [it for it in found.values() if it.ok and it.fix]


def test_fit_host_is_let_through() -> None:
    """No fault, no error."""
    doctor.require([it for it in _findings().values() if it.ok])


def test_host_without_root_gets_only_cheap_checks() -> None:
    """It is told first of all, and neither `criu check` nor the engine is asked."""
    user = os.geteuid() or _NOBODY
    argv = [sys.executable, "-c", _EXAMINE_AS, str(user)]
    findings = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    assert findings[0] == ["root", False, f"user id {user} is not root"]
    assert not {"criu check", "engine"} & {name for name, _, _ in findings}


@pytest.mark.parametrize(
    ("kernel", "needed"),
    [((6, 18, 44), "4.2"), ((6, 16), "4.2"), ((6, 15, 11), "4.0"), ((5, 10), "4.0")],
)
def test_newer_kernel_needs_a_newer_criu(kernel: tuple[int, ...], needed: str) -> None:
    """Kernel 6.16 changed what CRIU before 4.2 asks of sockets."""
    assert doctor.criu_needed(kernel) == needed


def test_criu_of_debian_12_is_refused_with_both_versions() -> None:
    """CRIU 3.17 is too old for every kernel, and the running one is named."""
    found = _findings({("criu", "--version"): Completed(0, "Version: 3.17.1\n")})["CRIU"]
    said = _refusal(found)
    assert said.startswith(f"CRIU 3.17.1 is too old for kernel {os.uname().release}; install CRIU ")


def test_missing_criu_is_refused() -> None:
    """It is also what a CRIU that does not start looks like."""
    said = _refusal(_findings({("criu", "--version"): _MISSING})["CRIU"])
    assert said.startswith("CRIU is not installed or does not start; install CRIU ")


@pytest.mark.skipif(os.geteuid() != 0, reason="criu check is only run as root")
def test_failing_criu_check_is_refused_with_its_last_words() -> None:
    """The quick examination leaves `criu check` out."""
    failed: _Script = {
        ("criu", "check"): Completed(1, stderr="Warn: x\nError (criu/cr-check.c:1): No tun\n")
    }
    said = _refusal(_findings(failed, thorough=True)["criu check"])
    assert "`criu check` says: Error (criu/cr-check.c:1): No tun; " in said
    assert "criu check" not in _findings(failed)


def test_missing_runc_is_refused() -> None:
    """The package is named."""
    found = _findings({("runc", "--version"): _MISSING, ("crun", "--version"): _MISSING})["runc"]
    assert _refusal(found) == "runc is not installed; run `apt-get install runc`"


def test_old_runc_is_refused() -> None:
    """Both versions are named."""
    found = _findings({("runc", "--version"): Completed(0, "runc version 1.0.3\n")})["runc"]
    assert _refusal(found) == "runc 1.0.3 is too old; install runc 1.1 or newer"


def test_crun_without_libcriu_is_refused_for_what_it_lacks() -> None:
    """It could not freeze anything even if spotrun used it."""
    libraries: _Script = {
        ("ldconfig", "-p"): Completed(0, "\tlibc.so.6 (libc6,x86-64) => /lib/libc.so.6\n")
    }
    assert _refusal(_findings(_CRUN_ONLY | libraries)["runc"]) == (
        "only crun is installed, which cannot freeze a container: it lacks libcriu.so.2;"
        " run `apt-get install runc`"
    )


def test_crun_does_not_stand_in_for_runc() -> None:
    """Their process images are not interchangeable, with libcriu or without."""
    libraries: _Script = {
        ("ldconfig", "-p"): Completed(0, "\tlibcriu.so.2 (libc6,x86-64) => /lib/x\n")
    }
    assert _refusal(_findings(_CRUN_ONLY | libraries)["runc"]) == (
        "only crun is installed, but spotrun freezes through runc; run `apt-get install runc`"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="the engine is only asked as root")
def test_failing_engine_is_refused_with_its_own_reason() -> None:
    """The engine's sentence comes first."""
    findings = doctor.examine(ScriptedRunner(_FIT), _broken_engine, thorough=False)
    engine = next(it for it in findings if it.name == "engine")
    assert _refusal(engine).startswith("podman: command not found; install Podman ")


def test_docker_that_is_not_told_is_refused(tmp_path: Path) -> None:
    """Where it is the one that new jobs go to; what is amiss with the other is only said."""
    told, untold = FakeEngine(tmp_path, FakeOci()), _Untold(tmp_path, FakeOci())
    fit = [doctor.Finding(name="engine", ok=True, found="docker 26.1.5")]
    alone = doctor.engines(fit, untold, None)
    assert [(it.name, it.found, it.fix) for it in alone] == [
        ("engine", "docker 26.1.5", ""),
        ("OCI runtime", "docker does not know spotrun's OCI runtime", "run `spotrun install`"),
    ]
    both = doctor.engines(fit, told, untold)
    assert [(it.name, it.ok, it.found) for it in both] == [
        ("engine", True, "docker 26.1.5; new jobs go to it"),
        ("other engine", True, "docker 26.1.5; it can have jobs after `spotrun install`"),
    ]


def test_engine_that_does_not_answer_is_asked_no_more(tmp_path: Path) -> None:
    """Docker may be installed without its daemon."""
    unfit = [doctor.Finding(name="engine", ok=False, found="docker: no", fix="start it")]
    assert doctor.engines(unfit, _Dead(tmp_path, FakeOci()), None) == unfit
    (_, other) = doctor.engines(unfit, FakeEngine(tmp_path, FakeOci()), _Dead(tmp_path, FakeOci()))
    assert (other.ok, other.found) == (
        True,
        "docker does not answer; only jobs that are on it need it",
    )


def test_tar_of_another_make_is_refused() -> None:
    """Only GNU tar keeps extended attributes and sparse files as spotrun needs them."""
    found = _findings({("tar", "--version"): Completed(0, "bsdtar 3.7.2\n")})["tar"]
    assert _refusal(found) == "GNU tar is not installed; run `apt-get install tar`"


def test_missing_ssh_is_no_obstacle() -> None:
    """Only migrations need it."""
    found = _findings({("ssh", "-V"): _MISSING})["ssh"]
    assert found.ok
    assert "migrate" in found.found


def test_only_the_first_fault_is_raised() -> None:
    """One clear sentence is enough for a verb; `doctor` lists them all."""
    faults = [
        doctor.Finding(name="CRIU", ok=True, found="4.2.1"),
        doctor.Finding(name="runc", ok=False, found="no runc", fix="get it"),
        doctor.Finding(name="tar", ok=False, found="no tar", fix="get that"),
    ]
    with pytest.raises(HostUnfit, match=r"^no runc; get it$"):
        doctor.require(faults)
