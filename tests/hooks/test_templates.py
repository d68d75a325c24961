"""What spotrun ships for schedulers and service managers is taken by their own tools."""

import configparser
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.conftest import Hosts
from tests.lab import apt
from tests.lab.cache import built
from tests.lab.root import REPOSITORY, debootstrap
from tests.lab.shell import LabError, call

_HOOKS = REPOSITORY / "hooks"
_UNIT = _HOOKS / "systemd/spotrun@.service"
_USER_DATA = _HOOKS / "cloud/user-data.yaml"
_TASK = _HOOKS / "skypilot/task.yaml"
_SUBMIT = _HOOKS / "htcondor/spotrun.sub"


@pytest.fixture
def tools() -> Iterator[Path]:
    """Give a folder in a root that has HTCondor and cloud-init."""
    packages = "condor cloud-init"

    def build(folder: Path) -> None:
        debootstrap(folder / "root", "trixie", packages, apt.mirror().source("trixie"))

    with TemporaryDirectory(dir=built("template-tools", packages, build) / "root") as folder:
        yield Path(folder)


def _in(tools: Path, command: str) -> str:
    """Run a command with the folder as its own, and return what it complains of."""
    enter = 'cd "/$1" && exec $2'
    return call("chroot", tools.parent, "sh", "-c", enter, "sh", tools.name, command).stderr


def _embedded() -> str:
    """Return the unit in the user data."""
    _, _, rest = _USER_DATA.read_text().partition("    content: |\n")
    unit, _, _ = rest.partition("runcmd:")
    return textwrap.dedent(unit)


def _settings(unit: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(unit)
    return parser


def test_unit_in_the_user_data_is_the_unit() -> None:
    """But for the job's name and command line."""
    template, embedded = _settings(_UNIT.read_text()), _settings(_embedded())
    del template["Service"]["EnvironmentFile"]
    for unit in (template, embedded):
        assert unit["Service"].pop("ExecStart").startswith("/usr/local/bin/spotrun run --job ")
        assert unit["Unit"].pop("Description").startswith("spotrun job ")
    assert template == embedded


@pytest.mark.lab
def test_systemd_takes_the_units(hosts: Hosts) -> None:
    """And says nothing of them; a wrong line it would name."""
    (host,) = hosts(1, images=())
    units = {"spotrun@.service": _UNIT.read_text(), "spotrun.service": _embedded()}
    units["wrong.service"] = _UNIT.read_text().replace("Restart=on-abnormal", "Restart=maybe")
    for name, text in units.items():
        host.path(f"/etc/systemd/system/{name}").write_text(text)
    for name in ("spotrun@train.service", "spotrun.service"):
        assert host.run(["systemd-analyze", "verify", name]).stderr == ""
    said = host.run(["systemd-analyze", "verify", "wrong.service"], check=False).stderr
    assert "maybe" in said


@pytest.mark.lab
@pytest.mark.slow
def test_cloud_init_takes_the_user_data(tools: Path) -> None:
    """A key that it does not know it would name."""
    check = "cloud-init schema --config-file=user-data"
    right = _USER_DATA.read_text()
    (tools / "user-data").write_text(right)
    _in(tools, check)
    (tools / "user-data").write_text(right.replace("    content:", "    contents:"))
    with pytest.raises(LabError, match="'contents' was unexpected"):
        _in(tools, check)


@pytest.mark.lab
@pytest.mark.slow
def test_htcondor_takes_the_submit_file(tools: Path) -> None:
    """What it makes of it: 85 leaves the job in the queue, for another machine."""
    shutil.copy(_SUBMIT, tools)
    assert "WARNING" not in _in(tools, "condor_submit -dry-run ad spotrun.sub")
    made = (tools / "ad").read_text().splitlines()
    ad = dict(line.split("=", 1) for line in made if "=" in line)
    assert ad["OnExitRemove"].replace(" ", "") == "(ExitBySignal==false)&&(ExitCode!=85)"
    assert "MachineAttrMachine0" in ad["Requirements"]
    assert "spotrun run --scheduler htcondor" in ad["Arguments"]


def test_skypilot_takes_the_task(tmp_path: Path) -> None:
    """A key that it does not know it would name."""
    sky = pytest.importorskip("sky", reason="needs `pip install skypilot`")
    (resources,) = sky.Task.from_yaml(str(_TASK)).resources
    assert resources.use_spot
    assert resources.job_recovery["recover_on_exit_codes"] == [85]
    wrong = tmp_path / "task.yaml"
    wrong.write_text(_TASK.read_text().replace("use_spot:", "use_spott:"))
    with pytest.raises(ValueError, match="did you mean 'use_spot'"):
        sky.Task.from_yaml(str(wrong))
