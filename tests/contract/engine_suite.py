"""What every engine does, as functions that need nothing but the engine and an image's name.

They run on the in-memory engine here and, through `on_host`, on a real one on a lab host.
"""

import json
import re
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from spotrun.images.errors import EngineError, ExitCode, NotHere
from spotrun.images.logfile import WHOLE, Excerpt, LogLine
from spotrun.images.runspec import ImageRef
from spotrun.runtime.engine import JOB_LABEL, Container, Engine
from tests.fakes.engine import Ended

_TALK = ("sh", "-c", "echo out; echo err >&2; exit 3")
_FOREVER = ("sh", "-c", "sleep 1000")
_EXIT = ("sh", "-c", "exit 7")
_NO_COMMAND = ("no-such-command",)
_PATIENCE = 10.0
"""Seconds in which a health check of every second is known."""
PROGRAMS = {
    ("sh", "-c", "exit 0"): Ended(),
    ("sh", "-c", "exit 1"): Ended(status=1),
    _TALK: Ended((LogLine("stdout", b"out\n"), LogLine("stderr", b"err\n")), 3),
    _EXIT: Ended(status=7),
    _NO_COMMAND: Ended(status=127),
}
"""What the commands of this suite do, for an engine that runs none."""


def version_has_a_name_and_a_number(engine: Engine, image: str) -> None:  # noqa: ARG001
    """It is what a manifest records and another host compares."""
    assert re.fullmatch(r"[a-z]+ \d+\.\d+\S*", engine.version())


def shim_is_known_once_installed(engine: Engine, image: str) -> None:  # noqa: ARG001
    """Hosts of the lab have it."""
    assert engine.knows_shim()


def missing_container_is_none(engine: Engine, image: str) -> None:  # noqa: ARG001
    """Looking for one is no error."""
    assert engine.find("absent") is None


def created_container_has_not_run(engine: Engine, image: str) -> None:
    """It has no process yet, and its files can be written to."""
    identity = engine.create(["--name=one", f"--label={JOB_LABEL}=job", image, *_FOREVER])
    found = _found(engine, identity)
    assert (found.name, found.job, found.status) == ("one", "job", "created")
    assert (found.running, found.pid) == (False, 0)
    assert found.image_id == _image(engine, image).id
    (found.upper / "file").write_text("written")


def container_that_is_being_removed_is_found_or_not(engine: Engine, image: str) -> None:
    """Some of what an engine tells of others it does not tell of that one any more."""
    identity = _started(engine, image, *_FOREVER).id
    with ThreadPoolExecutor(1) as beside:
        removed = beside.submit(engine.remove, identity)
        while engine.find(identity):
            pass
        removed.result()


def container_is_found_by_name_and_by_id(engine: Engine, image: str) -> None:
    """Both mean the same."""
    identity = engine.create(["--name=one", image, *_FOREVER])
    by_name, by_id = _found(engine, "one"), _found(engine, identity)
    assert by_name == by_id
    assert by_name.id == identity
    assert by_name.job is None


def started_container_runs(engine: Engine, image: str) -> None:
    """It has a process and the bundle that the OCI runtime was given."""
    found = _started(engine, image, *_FOREVER)
    assert (found.status, found.running) == ("running", True)
    assert found.pid > 0
    assert found.bundle is not None
    spec = json.loads((found.bundle / "config.json").read_bytes())
    assert spec["process"]["args"] == list(_FOREVER)


def container_that_has_ended_keeps_its_exit_code(engine: Engine, image: str) -> None:
    """It has no process any more."""
    identity = engine.create([image, *_EXIT])
    engine.start(identity)
    found = _ended(engine, identity)
    assert (found.running, found.pid, found.exit_code) == (False, 0, 7)


def starting_a_missing_container_is_refused(engine: Engine, image: str) -> None:  # noqa: ARG001
    """The error is that of an object that is not here."""
    _refused(NotHere, lambda: engine.start("absent"))


def name_is_taken_only_once(engine: Engine, image: str) -> None:
    """The first container is left as it is."""
    first = engine.create(["--name=one", image, *_FOREVER])
    _refused(EngineError, lambda: engine.create(["--name=one", image, *_FOREVER]))
    assert _found(engine, "one").id == first


def unknown_image_is_refused(engine: Engine, image: str) -> None:  # noqa: ARG001
    """Nothing is created."""
    _refused(EngineError, lambda: engine.create(["--name=one", "--pull=never", "localhost/x:1"]))
    assert engine.find("one") is None


def jobs_are_the_containers_with_a_job(engine: Engine, image: str) -> None:
    """Running or not, and no others."""
    engine.create(["--name=foreign", image, *_FOREVER])
    created = engine.create([f"--label={JOB_LABEL}=a", image, *_FOREVER])
    running = engine.create([f"--label={JOB_LABEL}=b", image, *_FOREVER])
    engine.start(running)
    assert {it.id: it.job for it in engine.jobs()} == {created: "a", running: "b"}


def labelled_containers_have_the_whole_label(engine: Engine, image: str) -> None:
    """A value that only begins alike is another one."""
    wanted = engine.create(["--label=attempt=1", image, *_FOREVER])
    engine.create(["--label=attempt=11", image, *_FOREVER])
    engine.create(["--label=other=1", image, *_FOREVER])
    assert [it.id for it in engine.labelled("attempt", "1")] == [wanted]
    assert engine.labelled("attempt", "2") == []


def removed_container_is_gone_at_once(engine: Engine, image: str) -> None:
    """Also one that runs, and again without an error."""
    found = _started(engine, image, *_FOREVER)
    engine.remove(found.id)
    assert engine.find(found.id) is None
    engine.remove(found.id)
    engine.remove("absent")


def renamed_container_leaves_its_name_free(engine: Engine, image: str) -> None:
    """It is the same one; a name in use is refused."""
    first = engine.create(["--name=one", image, *_EXIT])
    engine.start(first)
    _ended(engine, first)
    engine.rename(first, "aside")
    second = engine.create(["--name=one", image, *_EXIT])
    assert (_found(engine, "aside").id, _found(engine, "one").id) == (first, second)
    _refused(EngineError, lambda: engine.rename(first, "one"))
    _refused(NotHere, lambda: engine.rename("absent", "two"))


def anonymous_volume_goes_with_its_container(engine: Engine, image: str) -> None:
    """One that the user named stays."""
    identity = engine.create(["--volume=named:/a", "--volume=/b", image, *_FOREVER])
    mounts = {it.destination: it for it in _found(engine, identity).mounts}
    named, unnamed = mounts["/a"], mounts["/b"]
    assert (named.kind, named.volume, named.anonymous) == ("volume", "named", False)
    assert (unnamed.kind, unnamed.anonymous) == ("volume", True)
    assert unnamed.volume
    engine.remove(identity)
    assert engine.volume(unnamed.volume) is None
    assert engine.volume("named") is not None
    assert named.source.is_dir()


def bind_mount_names_the_folder_of_the_host(engine: Engine, image: str) -> None:
    """It is no volume."""
    with tempfile.TemporaryDirectory() as folder:
        identity = engine.create([f"--volume={folder}:/a", image, *_FOREVER])
        (mount,) = _found(engine, identity).mounts
        assert (mount.kind, str(mount.source), mount.destination) == ("bind", folder, "/a")
        assert mount.volume is None
        engine.remove(identity)


def volume_is_told_from_a_later_one_of_its_name(engine: Engine, image: str) -> None:
    """What identifies it stays the same as long as it lives."""
    assert engine.volume("data") is None
    identity = engine.create(["--volume=data:/a", image, *_FOREVER])
    first = engine.volume("data")
    assert first is not None
    assert engine.volume("data") == first
    engine.remove(identity)
    engine.remove_volume("data")
    assert engine.volume("data") is None
    engine.create(["--volume=data:/a", image, *_FOREVER])
    assert engine.volume("data") not in {None, first}


def used_volume_is_not_removed(engine: Engine, image: str) -> None:
    """A missing one is no error."""
    engine.create(["--volume=data:/a", image, *_FOREVER])
    _refused(EngineError, lambda: engine.remove_volume("data"))
    assert engine.volume("data") is not None
    engine.remove_volume("absent")


def output_comes_from_both_streams(engine: Engine, image: str) -> None:
    """A log that is followed ends with its container."""
    identity = engine.create([image, *_TALK])
    engine.start(identity)
    for follow in (True, False):
        lines = list(engine.logs(identity, follow=follow, part=WHOLE))
        for stream, said in (("stdout", b"out\n"), ("stderr", b"err\n")):
            assert b"".join(it.data for it in lines if it.stream == stream) == said
    assert _ended(engine, identity).exit_code == 3


def output_of_a_missing_container_is_refused(engine: Engine, image: str) -> None:  # noqa: ARG001
    """No output is something else than no container."""
    _refused(NotHere, lambda: list(engine.logs("absent", follow=False, part=WHOLE)))


def a_part_of_the_output_can_be_asked_for(engine: Engine, image: str) -> None:
    """The last lines, those since a time, and each with its time."""
    identity = engine.create([image, *_TALK])
    engine.start(identity)
    _ended(engine, identity)
    assert len(list(engine.logs(identity, follow=False, part=Excerpt(tail=1)))) == 1
    assert list(engine.logs(identity, follow=False, part=Excerpt(tail=0))) == []
    since = datetime.now(UTC) - timedelta(hours=1)
    assert len(list(engine.logs(identity, follow=False, part=Excerpt(since=since)))) == 2
    late = Excerpt(since=datetime.now(UTC) + timedelta(hours=1))
    assert list(engine.logs(identity, follow=False, part=late)) == []
    for line in engine.logs(identity, follow=False, part=Excerpt(timestamps=True)):
        assert re.fullmatch(rb"\d{4}-\d\d-\d\dT[\d:.]+Z (out|err)\n", line.data), line


def health_check_holds_or_does_not(engine: Engine, image: str) -> None:
    """It is run as soon as somebody asks, or within a second or two."""
    for status, wanted in ((0, True), (1, False)):
        check = [f"--health-cmd=exit {status}", "--health-interval=1s"]
        identity = engine.create([*check, image, *_FOREVER])
        engine.start(identity)
        end = time.monotonic() + _PATIENCE
        while (found := engine.healthy(identity)) is not wanted and time.monotonic() < end:
            time.sleep(0.1)
        assert found is wanted


def container_without_a_health_check_has_none(engine: Engine, image: str) -> None:
    """Nor has one that is to have none."""
    for options in ([], ["--no-healthcheck"]):
        identity = engine.create([*options, image, *_FOREVER])
        engine.start(identity)
        assert engine.healthy(identity) is None


def run_returns_the_status_of_the_command(engine: Engine, image: str) -> None:
    """What the engine itself cannot do is an error with the code of `docker run`."""
    assert engine.command(["run", "--rm", image, *_EXIT], silent=True) == 7
    for words, code in (
        (("--rm", image, *_NO_COMMAND), ExitCode.NOT_FOUND),
        (("--rm", "--pull=never", "localhost/absent:1"), ExitCode.OWN_ERROR),
    ):
        with suppress(EngineError):
            try:
                engine.command(["run", *words], silent=True)
            except EngineError as error:
                assert error.exit_code is code, error
                raise
            raise AssertionError(f"{words} were run")


def commands_of_the_engine_act_on_its_containers(engine: Engine, image: str) -> None:
    """What was created is started, killed, waited for and removed."""
    assert engine.command(["create", "--name=one", image, *_FOREVER], silent=True) == 0
    assert _found(engine, "one").status == "created"
    assert engine.command(["start", "one"], silent=True) == 0
    assert _found(engine, "one").running
    _refused(EngineError, lambda: engine.command(["rm", "one"], silent=True))
    assert engine.command(["kill", "one"], silent=True) == 0
    assert engine.wait("one") == 137
    assert engine.command(["rm", "one"], silent=True) == 0
    assert engine.find("one") is None


def command_that_fails_says_so_itself_or_raises(engine: Engine, image: str) -> None:  # noqa: ARG001
    """With this terminal its status is returned."""
    assert engine.command(["stop", "absent"]) != 0
    _refused(EngineError, lambda: engine.command(["stop", "absent"], silent=True))


def waiting_returns_the_exit_code(engine: Engine, image: str) -> None:
    """Of one that has ended at once; a missing one is refused."""
    identity = engine.create([image, *_EXIT])
    engine.start(identity)
    assert engine.wait(identity) == 7
    _refused(NotHere, lambda: engine.wait("absent"))


def last_exit_of_a_job_is_known_when_its_container_has_gone(engine: Engine, image: str) -> None:
    """Of others, and of what was before, nothing is."""
    begin = datetime.now(UTC)
    label = f"--label={JOB_LABEL}=job"
    assert engine.command(["run", "--rm", label, image, *_EXIT], silent=True) == 7
    assert engine.last_exit("job", begin) == 7
    assert engine.last_exit("other", begin) is None
    assert engine.last_exit("job", datetime.now(UTC)) is None


def image_is_found_by_name_and_by_id(engine: Engine, image: str) -> None:
    """A missing one is none."""
    named = _image(engine, image)
    by_id = _image(engine, named.id)
    assert (named.name, by_id.id) == (image, named.id)
    assert re.fullmatch(r"[0-9a-f]{64}", named.id)
    assert engine.image("localhost/absent:1") is None


def container_is_made_from_the_id_of_an_image(engine: Engine, image: str) -> None:
    """So that it does not matter what the image is called here."""
    identity = _image(engine, image).id
    made = engine.create(["--name=one", identity, *_FOREVER])
    assert _found(engine, made).image_id == identity


def image_that_no_registry_has_has_no_digest(engine: Engine, image: str) -> None:
    """Whatever it is called: with a digest, any host is to pull it."""
    name = "docker.io/me/mine:1"
    engine.command(["tag", image, name], silent=True)
    try:
        assert [_image(engine, it).digest for it in (image, name)] == [None, None]
    finally:
        engine.command(["rmi", name], silent=True)


def layers_are_those_of_all_images(engine: Engine, image: str) -> None:
    """Each is named by its digest; an engine that takes whole images only names none."""
    layers = _image(engine, image).layers
    assert layers
    assert set(layers) <= engine.layers() or not engine.layers()
    assert all(layer.startswith("sha256:") for layer in engine.layers())


def saved_image_has_its_layers_by_digest(engine: Engine, image: str) -> None:
    """What is known of the digests tells which files need not be sent."""
    found = _image(engine, image)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "image"
        engine.save_image(found, folder)
        names = {path.name for path in folder.iterdir()}
        assert {layer.removeprefix("sha256:") for layer in found.layers} < names


def image_is_loaded_without_the_layers_that_are_here(engine: Engine, image: str) -> None:
    """Loading it again changes nothing."""
    found = _image(engine, image)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "image"
        engine.save_image(found, folder)
        engine.load_image(found, folder)
        for layer in engine.layers().intersection(found.layers):
            (folder / layer.removeprefix("sha256:")).unlink()
        engine.load_image(found, folder)
    assert engine.image(image) == found


def saving_a_missing_image_is_refused(engine: Engine, image: str) -> None:
    """Nothing is written in its place."""
    absent = ImageRef("localhost/absent:1", "0" * 64, None, _image(engine, image).layers)
    with tempfile.TemporaryDirectory() as scratch:
        _refused(EngineError, lambda: engine.save_image(absent, Path(scratch) / "image"))


def unreachable_registry_is_refused(engine: Engine, image: str) -> None:  # noqa: ARG001
    """The reason is the engine's own."""
    digest = f"localhost:1/absent@sha256:{'0' * 64}"
    _refused(EngineError, lambda: engine.pull(digest))


def _found(engine: Engine, container: str) -> Container:
    found = engine.find(container)
    assert found is not None, container
    return found


def _image(engine: Engine, reference: str) -> ImageRef:
    found = engine.image(reference)
    assert found is not None, reference
    return found


def _started(engine: Engine, image: str, *command: str) -> Container:
    identity = engine.create([image, *command])
    engine.start(identity)
    return _found(engine, identity)


def _ended(engine: Engine, container: str) -> Container:
    """Return a container once it has ended; its log says when that is."""
    for _ in engine.logs(container, follow=True, part=WHOLE):
        pass
    while _found(engine, container).running:
        pass
    return _found(engine, container)


def _refused(kind: type[EngineError], call: Callable[[], Any]) -> None:
    """Prove that a call raises that error, with a reason of one line."""
    with suppress(kind):
        try:
            call()
        except kind as error:
            reason = str(error.fields["reason"])
            assert reason.strip(), error
            assert "\n" not in reason.strip(), error
            raise
        raise AssertionError(f"it was not refused with {kind.__name__}")
