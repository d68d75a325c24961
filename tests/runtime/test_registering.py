"""Engines get to know spotrun's runtime: those that are here, and only if they would take it."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from spotrun.images.errors import EngineError, HostUnfit, Refused, ToolError
from spotrun.images.process import Completed
from spotrun.runtime import launcher, registering
from spotrun.runtime.installing import Action, File
from spotrun.runtime.paths import Paths
from spotrun.runtime.registering import Installed, Site
from tests.fakes.clock import SteppingClock
from tests.fakes.runner import ScriptedRunner

_PID = 76


class Engines(ScriptedRunner):
    """Docker and Podman of a host, as far as an installation asks them."""

    def __init__(self, root: Path) -> None:
        """Have no container; Docker's daemon knows what its configuration says."""
        super().__init__({})
        self.config = root / "etc/docker/daemon.json"
        self.knows: dict[str, dict[str, str]] = {"runc": {"path": "runc"}}
        self.takes, self.reads, self.answers = True, True, True
        self.podman = "5.4.2"
        self.containers: dict[str, list[str]] = {"docker": [], "podman": []}
        """Runtime and name of each."""

    def _answer(self, argv: Sequence[str]) -> Completed:  # noqa: PLR0911 # a table
        self.calls.append(tuple(argv))
        match [it for it in argv if not it.startswith("--host=")]:
            case ["podman", "version", *_]:
                return Completed(0, f"{self.podman}\n")
            case ["kill", "-HUP", pid] if self.reads and pid == str(_PID):
                settings = json.loads(self.config.read_bytes()) if self.config.exists() else {}
                if "runtimes" in settings:
                    self.knows = {"runc": {"path": "runc"}, **settings["runtimes"]}
                return Completed(0)
            case [*_, "--validate", _]:
                return Completed(0 if self.takes else 1, stderr=f"{argv[-1][14:]}: no such thing")
            case [_, "info" | "ps", *_] if not self.answers:
                return Completed(1, stderr="it does not answer")
            case ["docker", "info", *_]:
                return Completed(0, json.dumps(self.knows))
            case [engine, "ps", *_]:
                return Completed(0, "id\n" * len(self.containers[engine]))
            case [engine, "inspect", *_]:
                return Completed(0, "\n".join(self.containers[engine]))
        return Completed(0)


class Host:
    """A host with both engines in a folder."""

    def __init__(self, root: Path) -> None:
        """Have Docker's daemon running, with flags of its own."""
        self.root = root
        self.engines = Engines(root)
        self.programs = {"dockerd", "podman"}
        self.paths = Paths(state=root / "state", run=root / "run/spotrun", memory=root / "memory")
        self.paths.prepare()
        self.start("/usr/bin/dockerd", "-H", "fd://")

    def start(self, *argv: str) -> None:
        """Have a process with the pid that Docker's daemon has left."""
        (self.root / f"proc/{_PID}").mkdir(parents=True, exist_ok=True)
        (self.root / f"proc/{_PID}/cmdline").write_text("\0".join([*argv, ""]))
        (self.root / "run/docker.pid").write_text(str(_PID))

    def configure(self, text: str) -> Path:
        """Write Docker's configuration."""
        self.engines.config.parent.mkdir(parents=True, exist_ok=True)
        self.engines.config.write_text(text)
        return self.engines.config

    def install(self, *more: File, dry_run: bool = False) -> Installed:
        """Install."""
        return registering.install(self._site, more, dry_run=dry_run)

    def uninstall(self, *, dry_run: bool = False) -> Installed:
        """Take it back."""
        return registering.uninstall(self._site, dry_run=dry_run)

    def files(self) -> dict[str, bytes]:
        """Return all files that are not spotrun's state."""
        found = [it for it in (self.root / "etc").rglob("*") if it.is_file()]
        return {str(it.relative_to(self.root)): it.read_bytes() for it in found}

    @property
    def _site(self) -> Site:
        return Site(
            paths=self.paths,
            runner=self.engines,
            clock=SteppingClock(),
            root=self.root,
            which=lambda program: f"/bin/{program}" if program in self.programs else None,
        )


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Give a host where nothing waits."""
    monkeypatch.setattr("spotrun.runtime.dockerd.time.sleep", lambda _: None)
    return Host(tmp_path)


def test_systemd_gets_units_that_nobody_has_enabled(host: Host) -> None:
    """They start the spotrun that is here; without systemd there are none."""
    host.install()
    assert not [path for path in host.files() if path.startswith("etc/systemd")]
    host.programs |= {"systemctl", "spotrun"}
    host.install()
    units = {path: text for path, text in host.files().items() if path.startswith("etc/systemd")}
    assert sorted(units) == [
        "etc/systemd/system/spotrun-agent.service",
        "etc/systemd/system/spotrun@.service",
    ]
    for text in units.values():
        assert b"\nExecStart=/bin/spotrun " in text
    host.uninstall()
    assert host.files() == {}


def test_each_engine_is_told_of_the_runtime(host: Host) -> None:
    """Docker in its configuration, Podman in a file of spotrun's own, which adds to others."""
    done = host.install()
    assert done.notes == ["dockerd has read its configuration again"]
    shim = str(host.paths.shim)
    assert host.engines.knows["spotrun"] == {"path": shim}
    assert host.paths.shim.read_text() == launcher.shim(host.paths)
    assert host.paths.shim.stat().st_mode & 0o777 == 0o755
    files = host.files()
    assert sorted(files) == [
        "etc/containers/containers.conf.d/50-spotrun.conf",
        "etc/containers/oci/hooks.d/50-spotrun-criu.json",
        "etc/containers/oci/hooks.d/50-spotrun.json",
        "etc/docker/daemon.json",
    ]
    engine = tomllib.loads(files["etc/containers/containers.conf.d/50-spotrun.conf"].decode())
    assert engine["engine"] == {
        "hooks_dir": ["/etc/containers/oci/hooks.d", {"append": True}],
        "runtime_supports_json": ["spotrun", "spotrun-oci", {"append": True}],
        "runtimes": {"spotrun": [shim]},
    }


@pytest.mark.parametrize(
    ("programs", "there"),
    [
        (set(), []),
        ({"podman"}, ["50-spotrun-criu.json", "50-spotrun.conf", "50-spotrun.json"]),
        ({"dockerd"}, ["daemon.json"]),
    ],
    ids=["no engine", "Podman", "Docker"],
)
def test_only_engines_that_are_here_get_something(
    host: Host, programs: set[str], there: list[str]
) -> None:
    """What goes to an engine that has gone since is taken back by the next install."""
    host.install()
    host.programs = programs
    host.install()
    assert sorted(Path(it).name for it in host.files()) == there


def test_dry_run_asks_and_changes_nothing(host: Host) -> None:
    """Also whether Docker would take it; the changes are those that are made then."""
    host.configure('{"a": 1}')
    before = host.files()
    shown = host.install(dry_run=True)
    assert host.files() == before
    assert shown.notes == ["dockerd would read its configuration again"]
    assert any("--validate" in call for call in host.engines.calls)
    assert not any("kill" in call for call in host.engines.calls)
    assert not host.paths.shim.exists()
    assert host.install().changes == shown.changes


def test_second_install_leaves_engines_alone(host: Host) -> None:
    """Nothing is written, and the daemon is not told to read."""
    host.install()
    host.engines.calls.clear()
    done = host.install()
    assert (done.changes, done.notes) == ([], [])
    assert not any("kill" in call for call in host.engines.calls)


def test_daemon_that_was_not_told_yet_is_told_by_the_next_install(host: Host) -> None:
    """An install that was killed before it came to that."""
    host.install()
    host.engines.knows = {}
    done = host.install()
    assert (done.changes, done.notes) == ([], ["dockerd has read its configuration again"])


def test_configuration_that_docker_refuses_is_not_written(host: Host) -> None:
    """It is asked with its own flags, for those must not say the same as the file."""
    path = host.configure('{"a": 1}')
    host.engines.takes = False
    with pytest.raises(HostUnfit, match=f"would not take {path}: {path}: no such thing"):
        host.install()
    assert path.read_text() == '{"a": 1}'
    assert not host.paths.shim.exists()
    (asked,) = (call for call in host.engines.calls if "--validate" in call)
    assert asked[:4] == ("/usr/bin/dockerd", "-H", "fd://", "--validate")


@pytest.mark.parametrize("flag", [("--config-file", "/opt/d.json"), ("--config-file=/opt/d.json",)])
def test_configuration_is_where_the_daemon_says(host: Host, flag: tuple[str, ...]) -> None:
    """Not at its usual place, if it was started with another."""
    host.start("dockerd", *flag)
    (host.root / "opt").mkdir()
    host.engines.config = host.root / "opt/d.json"
    host.install()
    assert b"spotrun" in host.engines.config.read_bytes()
    assert not (host.root / "etc/docker").exists()


def test_daemon_that_does_not_run_is_not_told(host: Host) -> None:
    """A pid that is another's by now is not signalled."""
    host.start("/usr/bin/something")
    done = host.install()
    assert done.notes == [f"dockerd does not run; it reads {host.engines.config} when it starts"]
    assert not any("kill" in call for call in host.engines.calls)
    assert host.install().notes == []


def test_daemon_that_does_not_take_it_is_an_error(host: Host) -> None:
    """After some patience; what is installed stays, and the next install goes on."""
    host.engines.reads = False
    with pytest.raises(ToolError, match="dockerd has not taken its new configuration"):
        host.install()
    host.engines.reads = True
    assert host.install().notes == ["dockerd has read its configuration again"]


@pytest.mark.parametrize("settings", ['{"runtimes": {"b": {"path": "b"}}}', "{}"])
def test_uninstall_lets_the_engines_forget(host: Host, settings: str) -> None:
    """Docker's daemon forgets a runtime only when it reads others; else it says until when."""
    host.configure(settings)
    before = host.files()
    host.install()
    done = host.uninstall()
    assert host.files() == before
    assert not host.paths.shim.exists()
    forgotten = "dockerd has read its configuration again"
    kept = "dockerd knows the runtime 'spotrun' until it starts anew; that does no harm"
    assert done.notes == [forgotten if "spotrun" not in host.engines.knows else kept]
    assert ("spotrun" in host.engines.knows) == (settings == "{}")
    assert host.uninstall().changes == []


@pytest.mark.parametrize(("runtime", "refused"), [("spotrun", True), ("runc", False)])
def test_containers_of_a_docker_that_does_not_answer_are_known_by_its_files(
    host: Host, runtime: str, *, refused: bool
) -> None:
    """It may be stopped, or gone from the host for good."""
    host.programs = {"dockerd"}
    host.install()
    host.engines.answers = False
    folder = host.root / "var/lib/docker/containers" / ("a" * 64)
    folder.mkdir(parents=True)
    (folder / "hostconfig.json").write_text(json.dumps({"Runtime": runtime}))
    if refused:
        with pytest.raises(Refused, match=r"^a{12}: remove these containers first"):
            host.uninstall()
    else:
        host.uninstall()
    assert host.paths.shim.exists() == refused


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff"])
def test_container_that_docker_itself_could_not_load_needs_no_runtime(
    host: Host, text: str
) -> None:
    """Its file is broken; that of another one is read all the same."""
    host.programs = {"dockerd"}
    host.install()
    host.engines.answers = False
    for letter, content in {"a": text, "b": '{"Runtime": "spotrun"}'}.items():
        folder = host.root / "var/lib/docker/containers" / (letter * 64)
        folder.mkdir(parents=True)
        (folder / "hostconfig.json").write_text(content, "latin-1")
    with pytest.raises(Refused, match=r"^b{12}: remove these containers first"):
        host.uninstall()


def test_uninstall_is_refused_while_containers_need_the_runtime(host: Host) -> None:
    """By whatever name they know it; those of other runtimes do not count."""
    host.install()
    host.engines.containers = {
        "docker": ["spotrun /web", "runc /other"],
        "podman": [f"{host.paths.shim} train", "crun else"],
    }
    before = host.files()
    with pytest.raises(Refused, match=r"^train, web: remove these containers first"):
        host.uninstall()
    assert host.files() == before


def test_uninstall_is_refused_where_nobody_knows(host: Host) -> None:
    """An engine that does not answer may have such a container."""
    host.install()
    host.engines.answers = False
    with pytest.raises(EngineError, match="podman: it does not answer"):
        host.uninstall()


def test_podman_that_could_not_read_it_is_refused(host: Host) -> None:
    """All its commands would fail from then on."""
    host.engines.podman = "4.3.1"
    with pytest.raises(HostUnfit, match=r"Podman 4\.3\.1 is too old"):
        host.install()
    assert host.files() == {}


def test_podman_with_another_runtime_of_the_name_is_left_alone(host: Host) -> None:
    """Ours would take its place in silence."""
    folder = host.root / "etc/containers/containers.conf.d"
    folder.mkdir(parents=True)
    (folder / "10-broken.conf").write_text("[")
    (folder / "20-mine.conf").write_text('[engine.runtimes]\nspotrun = ["/usr/bin/mine"]\n')
    with pytest.raises(
        Refused, match=r"20-mine\.conf has another runtime 'spotrun': /usr/bin/mine"
    ):
        host.install()
    assert len(host.files()) == 2


def test_further_files_come_and_go_with_it(host: Host) -> None:
    """Like completions and man pages."""
    page = File(path=host.root / "usr/share/man/spotrun.1", content=b"page", generated=True)
    done = host.install(page)
    assert [it.path for it in done.changes if it.action is Action.MAKE][-1] == str(page.path)
    host.uninstall()
    assert not (host.root / "usr").exists()
