"""A host whose engine, OCI runtime and clock are in memory; its folders are real."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spotrun.images.process import Completed
from spotrun.runtime.gpu import NoGpu
from spotrun.runtime.host import Host
from spotrun.runtime.paths import Paths
from tests.fakes.clock import SteppingClock
from tests.fakes.engine import FakeEngine, Programs
from tests.fakes.oci import FakeOci
from tests.fakes.runner import ScriptedRunner

FIT: dict[tuple[str, ...], Completed] = {
    ("criu", "--version"): Completed(0, "Version: 99.1\n"),
    ("criu", "check"): Completed(0, "Looks good.\n"),
    ("runc", "--version"): Completed(0, "runc version 1.1.15+ds1\n"),
    ("tar", "--version"): Completed(0, "tar (GNU tar) 1.35\nCopyright\n"),
    ("ssh", "-V"): Completed(0, stderr="OpenSSH_9.2p1\n"),
}
"""What the programs of a fit host say."""


@dataclass(frozen=True, slots=True)
class FakeHost:
    """A host with its fakes at hand."""

    host: Host
    engine: FakeEngine
    oci: FakeOci
    runner: ScriptedRunner


def fake_host(
    folder: Path,
    script: Mapping[tuple[str, ...], Completed] | None = None,
    programs: Programs | None = None,
) -> FakeHost:
    """Make a host in a folder; its programs answer as scripted, by default as a fit host's do.

    `programs` are those of its containers.
    """
    paths = Paths(state=folder / "state", run=folder / "run", memory=folder / "memory")
    paths.prepare()
    oci, runner = FakeOci(), ScriptedRunner(FIT if script is None else script)
    engine = FakeEngine(folder / "engine", oci, programs)
    host = Host(
        paths=paths, runner=runner, clock=SteppingClock(), engine=engine, oci=oci, gpu=NoGpu()
    )
    return FakeHost(host, engine, oci, runner)
