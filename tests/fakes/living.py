"""A host whose containers have a process each, so that jobs on it can be saved and restored.

The processes are real ones that sleep; to freeze them is still the fake runtime's business, and
to restore them means to start others.
"""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any, Final

import pytest

from spotrun.images import lease, opening
from spotrun.images.address import Address
from spotrun.images.backends.base import Backend
from spotrun.images.care import Care
from spotrun.images.errors import EngineError, NotHere
from spotrun.images.manifest import Kind, Manifest
from spotrun.images.opening import make_in, open_in
from spotrun.images.patience import Patience
from spotrun.images.process import Completed, SystemRunner
from spotrun.images.runspec import RunSpec
from spotrun.images.store import Store
from spotrun.runtime import capture, jobs, supervising, tenure
from spotrun.runtime.engine import JOB_LABEL, RESTORE_ANNOTATION, Container
from spotrun.runtime.gpu import NoGpu
from spotrun.runtime.host import Host
from spotrun.runtime.paths import Paths
from spotrun.runtime.tenure import Tenure
from tests.fakes.clock import SteppingClock
from tests.fakes.engine import Ended, FakeEngine
from tests.fakes.host import FIT
from tests.fakes.observer import Listener
from tests.fakes.oci import FakeOci, Processes
from tests.fakes.partitions import Network, World
from tests.fakes.runner import ScriptedRunner

JOB: Final = "train"
IMAGE: Final = "localhost/busybox:1"
COMMAND: Final = ("work", "hard")
SILENT: Final = "it does not answer"
_GLANCE: Final = 0.01
_SECONDS: Final = 30.0
_SPEC: Final[dict[str, Any]] = {
    "process": {"args": list(COMMAND), "env": ["PATH=/bin", "HOME=/root"]},
    "mounts": [],
    "linux": {"namespaces": [{"type": it} for it in ("pid", "ipc", "network", "mount")]},
}


def until(holds: Callable[[], object], seconds: float = _SECONDS) -> None:
    """Wait until it holds."""
    end = monotonic() + seconds
    while not holds():
        assert monotonic() < end, "it does not come to that"
        sleep(0.005)


class LivingEngine(FakeEngine):
    """An engine whose containers have processes, and which can be in trouble."""

    def __init__(self, folder: Path, oci: FakeOci) -> None:
        """Have no container, and answer."""
        super().__init__(folder, oci)
        self.programs: dict[tuple[str, ...], Ended] = {}
        """Command lines that end at once."""
        self._programs = self.programs
        self.silent = False
        """Whether it does not answer."""
        self.failing: Callable[[str], bool] = lambda _: False
        """Tells of a container that cannot be started, by its arguments."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._codes: dict[str, int] = {}
        """How those have ended that are gone by themselves."""

    def start(self, container: str) -> None:
        """Start a process that sleeps."""
        found = self._get(container)
        if self.failing(" ".join(found.arguments)):
            raise EngineError(engine="podman", reason="it cannot be started")
        super().start(container)
        made = self._get(container)
        bundle = made.container.bundle
        assert bundle

        spec = {**_SPEC, "process": {**_SPEC["process"], "args": list(made.command)}}
        (bundle / "config.json").write_text(json.dumps(spec))
        if made.container.running:
            nothing = subprocess.DEVNULL
            process = subprocess.Popen(
                ["sleep", "1000"], stdin=nothing, stdout=nothing, stderr=nothing
            )
            self._processes[made.container.id] = process
            made.container = replace(made.container, pid=process.pid)
            self._oci.containers[made.container.id] = Processes(pids=[process.pid])

    def end(self, name: str, exit_code: int) -> None:
        """Let a container come to its end by itself; one with --rm is gone then."""
        made = self._get(name)
        self._kill(made.container.id)
        self._oci.containers.pop(made.container.id, None)
        made.container = replace(made.container, status="exited", pid=0, exit_code=exit_code)
        self._has_died(made.container)
        if "--rm" in made.arguments:
            self._codes[made.container.id] = exit_code
            self.remove(made.container.id)

    def find(self, name: str) -> Container | None:
        """Look it up, if it answers."""
        if self.silent:
            raise EngineError(engine="podman", reason=SILENT)
        return super().find(name)

    def _change(self, verb: str, container: Container, options: Sequence[str]) -> None:
        """Thaw it, too."""
        if verb == "unpause":
            self._oci.thaw(container.id)
        super()._change(verb, container, options)

    def remove(self, container: str) -> None:
        """End it, too."""
        found = self.find(container)
        if found:
            self._kill(found.id)
        super().remove(container)

    def wait(self, container: str) -> int:
        """Wait until it has ended; NotHere: it was removed before that."""
        while True:
            if container in self._codes:
                return self._codes[container]
            made = self._made.get(container)
            if made is None or self.silent:
                raise NotHere(engine="podman", reason=f"no such container {container}")
            if not made.container.running:
                return made.container.exit_code
            sleep(0.005)

    def close(self) -> None:
        """End all processes."""
        self.silent = False
        for container in list(self._processes):
            self._kill(container)

    def _kill(self, container: str) -> None:
        process = self._processes.pop(container, None)
        if process:
            process.kill()
            process.wait()


class LivingRunner(ScriptedRunner):
    """Runs `tar` and `sh` for real, answers for others, and has processes of spotrun's at hand."""

    def __init__(self) -> None:
        """Answer as the programs of a fit host do."""
        super().__init__(FIT)
        self.script: dict[tuple[str, ...], Completed] = {}
        self.spawned: list[tuple[str, ...]] = []
        """The spotrun commands that were to be started, without what starts spotrun."""
        self.on_spawn: Callable[[tuple[str, ...]], int] = lambda _: 1 << 30
        """Does what such a process would, and returns its id."""

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
        pass_fds: Sequence[int] = (),
        cwd: Path | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """Run or answer it."""
        if tuple(argv) in self.script:
            self.calls.append(tuple(argv))
            return self.script[tuple(argv)]
        if argv[0] in {"tar", "sh"} and tuple(argv) not in FIT:
            return SystemRunner().run(argv, timeout=timeout)
        if argv[0] == "systemd-run":  # whatever is the init of the host of these tests
            return Completed(1, stderr="Failed to connect to bus: No such file or directory")
        return super().run(
            argv, stdin=stdin, stdout=stdout, pass_fds=pass_fds, cwd=cwd, timeout=timeout
        )

    def spawn(self, argv: Sequence[str], *, log: Path) -> int:  # noqa: ARG002
        """Have it done."""
        words = tuple(argv[len(supervising.myself()) :])
        self.spawned.append(words)
        return self.on_spawn(words)


def ended(status: int) -> int:
    """Return the id of a child process that ends with that status."""
    return _child("sh", "-c", f"exit {status}")


def hanging() -> int:
    """Return the id of a child process that ends when it is told to."""
    return _child("sleep", "1000")


def stubborn() -> int:
    """Return the id of a child process that has to be killed."""
    with subprocess.Popen(
        ["sh", "-c", "trap '' TERM; echo; while :; do sleep 0.1; done"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        assert child.stdout
        child.stdout.readline()
        child.returncode = 0  # who gets the id waits for it
    return child.pid


def _child(*argv: str) -> int:
    child = subprocess.Popen(argv)
    child.returncode = 0
    return child.pid


@dataclass(slots=True)
class Living:
    """A host with a store that other hosts use, too."""

    host: Host
    engine: LivingEngine
    oci: FakeOci
    runner: LivingRunner
    address: Address
    world: World
    network: Network
    """The way from this host to the store."""
    listener: Listener = field(default_factory=Listener)
    wishes: Care = field(default_factory=Care)

    @property
    def store(self) -> Store:
        """The store, as this host reaches it."""
        return self.host.store(self.address)

    @property
    def elsewhere(self) -> Store:
        """The store, as others reach it."""
        return open_in(self.world.store, None)

    @property
    def container(self) -> Container:
        """That of the job."""
        found = self.host.container(JOB)
        assert found
        return found

    @property
    def status(self) -> str | None:
        """What the OCI runtime says of the job's container."""
        return self.oci.status(self.container.id)

    @property
    def record(self) -> jobs.Job:
        """That of the job."""
        found = jobs.load(self.host.paths, JOB)
        assert found
        return found

    def take(self, **changes: Any) -> Tenure:  # noqa: ANN401 # any argument
        """Take the job's lease."""
        wanted: dict[str, Any] = {"above": 0, "by_force": False, "tell": self.listener.note}
        return tenure.take(self.host, JOB, self.address, **{**wanted, **changes})

    def begin(self, *options: str, epoch: int = 0, **changes: Any) -> Container:  # noqa: ANN401
        """Have the job run here, with these options of its user's."""
        words = [*options, f"--name={JOB}", f"--label={JOB_LABEL}={JOB}", IMAGE, *COMMAND]
        self.engine.start(self.engine.create(words))
        record = jobs.Job(JOB, RunSpec(options, IMAGE, COMMAND), self.address, epoch=epoch)
        jobs.save(self.host.paths, replace(record, **changes))
        return self.container

    def save(self, kind: Kind = Kind.LIVE, *, leave_running: bool = True) -> Manifest:
        """Store a snapshot of the job, by the product's own capture."""
        state = capture.checkpoint(
            self.host,
            JOB,
            leave_running=leave_running,
            store=None,
            kind=kind,
            observer=self.listener,
        )
        return self.store.load(JOB, state.snapshot)

    def lose(self) -> str:
        """Let another host take the lease; return its name."""
        record = lease.read(self.elsewhere, JOB)
        other = lease.Lease(self.elsewhere, JOB, host="host-b")
        other.acquire(dead=record.holder if record else None)
        return "host-b"


@contextmanager
def living(folder: Path, patch: pytest.MonkeyPatch, world: World) -> Iterator[Living]:
    """Have a host in a folder that reaches the store of a world, and whose root one is."""
    paths = Paths(state=folder / "state", run=folder / "run", memory=folder / "memory")
    paths.prepare()
    oci, runner, network = FakeOci(), LivingRunner(), Network(world)
    engine = LivingEngine(folder / "engine", oci)
    engine.add_image(IMAGE, b"layer", digest="busybox@sha256:1")
    clock = SteppingClock()
    host = Host(paths=paths, runner=runner, clock=clock, engine=engine, oci=oci, gpu=NoGpu())
    address = Address(f"s3://{folder}")
    others: Callable[..., Backend] = vars(opening)["open_backend"]  # another host's, maybe

    def opened(url: str, *patience: Patience) -> Backend:
        return network if url == address.url else others(url, *patience)

    patch.setattr(opening, "open_backend", opened)
    patch.setattr("os.geteuid", lambda: 0)
    patch.setattr(capture, "overlay_upper", lambda _: None)  # this machine's root may be one
    make_in(world.store, None)
    try:
        yield Living(host, engine, oci, runner, address, world, network)
    finally:
        engine.close()


def is_live(arguments: str) -> bool:
    """Tell a container that is to be restored with its processes, by its arguments."""
    return f"--annotation={RESTORE_ANNOTATION}=" in arguments


@contextmanager
def supervised(here: Living) -> Iterator[threading.Event]:
    """Have processes that are to be supervisors hold their lock, until the event that is given.

    As they do, they end with a container that they have seen.
    """
    over = threading.Event()
    threads: list[threading.Thread] = []

    def serve(job: str) -> None:
        ran, end = False, monotonic() + _SECONDS
        with supervising.serving(here.host.paths, job):
            while not over.wait(_GLANCE) and monotonic() < end:
                found = here.engine.find(job)
                ran = ran or bool(found and found.begun)
                runs = (found and found.running) or supervising.launched(here.host.paths, job)
                if ran and not runs:
                    break

    def spawn(words: tuple[str, ...]) -> int:
        verb, job = words
        assert verb == supervising.SUPERVISE
        threads.append(threading.Thread(target=serve, args=(job,)))
        threads[-1].start()
        return 1 << 30

    here.runner.on_spawn = spawn
    try:
        yield over
    finally:
        over.set()
        for thread in threads:
            thread.join()
