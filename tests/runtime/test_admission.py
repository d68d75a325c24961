"""Whether a job may come is told with every reason at once, before anything is touched."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spotrun.images import imagebox
from spotrun.images.address import Address
from spotrun.images.errors import HostUnfit
from spotrun.images.manifest import HostFacts, Tree
from spotrun.images.process import Completed
from spotrun.images.runspec import ImageRef
from spotrun.runtime import admission, facts
from spotrun.runtime.admission import Demand, VolumeDemand
from tests.fakes.host import FIT, FakeHost, fake_host
from tests.fakes.snapshots import IMAGE, manifest

_MUCH = 1 << 60


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """Give a fit host, as root sees it."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return fake_host(tmp_path)


def _demand(fake: FakeHost, **changes: Any) -> Demand:  # noqa: ANN401 # any field
    """Return what a small job of this very host demands, with these fields changed."""
    small = Demand(
        name="job", image=IMAGE, source=_facts(fake), memory=1, disk=1, binds=(), volumes=()
    )
    return replace(small, **changes)


def _facts(fake: FakeHost) -> HostFacts:
    return facts.gather(fake.runner, fake.engine.version())


def _volume(fake: FakeHost, name: str) -> VolumeDemand:
    """Make a volume, and return the demand of a job whose own it is."""
    image = fake.engine.add_image("any", b"layer").name
    fake.engine.remove(fake.engine.create([f"--volume={name}:/data", image]))
    return VolumeDemand(name, fake.engine.volume(name))


def test_job_of_the_same_host_may_come(fake: FakeHost) -> None:
    """There is no reason against it."""
    assert admission.refusals(fake.host, _demand(fake)) == []


def test_all_reasons_are_listed(fake: FakeHost, tmp_path: Path) -> None:
    """Nobody has to mend one fault to learn of the next."""
    image = fake.engine.add_image("any", b"layer").name
    taken = fake.engine.create(["--name=job", image])
    demand = _demand(
        fake,
        source=replace(_facts(fake), criu="100.0"),
        memory=_MUCH,
        disk=_MUCH,
        binds=(str(tmp_path), "/no/such/folder", "/nor/this"),
        volumes=(replace(_volume(fake, "data"), identity="another"),),
    )
    said = admission.refusals(fake.host, demand)
    beginnings = [
        "CRIU 99.1 on ",
        f"it needs {_MUCH >> 30}.0 GiB of memory ",
        f"it needs {_MUCH >> 30}.0 GiB of disk space ",
        f"the name 'job' is taken by container {taken[:12]}",
        "/no/such/folder is not on this host",
        "/nor/this is not on this host",
        "another volume 'data' is here; it is left untouched",
    ]
    assert len(said) == len(beginnings)
    assert all(it.startswith(begin) for it, begin in zip(said, beginnings, strict=True)), said


def test_volume_of_the_job_itself_may_be_here(fake: FakeHost) -> None:
    """A job that comes back finds its own, and one that is missing is made."""
    volumes = (_volume(fake, "data"), VolumeDemand("missing", "1"))
    assert admission.refusals(fake.host, _demand(fake, volumes=volumes)) == []


@pytest.mark.parametrize("program", ["criu", "runc"])
def test_host_that_cannot_restore_anything_is_unfit(fake: FakeHost, program: str) -> None:
    """The reasons of this one job do not matter then."""
    demand, missing = _demand(fake), Completed(127, stderr="not found")
    script = {**FIT, (program, "--version"): missing, ("crun", "--version"): missing}
    unfit = fake_host(fake.host.paths.state, script)
    with pytest.raises(HostUnfit, match=r"is not installed.*; .*install"):
        admission.refusals(unfit.host, demand)


def test_demand_of_a_snapshot_is_in_its_manifest() -> None:
    """Page images are memory, trees are what is still to be written, the name may be another."""
    volume = Tree("mount", "trees/1.tar", "/data", volume="data", identity="7")
    described = manifest(
        run=replace(manifest().run, options=("-v", "/host:/in")),
        trees=(Tree("rootfs", "trees/0.tar", "/"), volume),
        files={"criu/pages-1.img": 100, "criu/mm-1.img": 5, "trees/0.tar": 30, "trees/1.tar": 4},
    )
    assert admission.of_manifest(described, "other") == Demand(
        name="other",
        image=described.image,
        source=described.host,
        memory=100,
        disk=34,
        binds=("/host",),
        volumes=(VolumeDemand("data", "7"),),
    )


@pytest.mark.parametrize(
    ("options", "binds"),
    [
        ("", ""),
        ("-v /a:/b", "/a"),
        ("-v/a:/b:ro", "/a"),
        ("--volume=/a:/b --volume /c:/d:z", "/a /c"),
        ("-v name:/b -v /anonymous", ""),
        ("--mount type=bind,source=/a,target=/b", "/a"),
        ("--mount=type=bind,src=/a,dst=/b,ro", "/a"),
        ("--mount type=volume,source=name,target=/b --mount type=tmpfs,target=/c", ""),
        ("-itv /a:/b --env X=/c:/d", "/a"),
    ],
)
def test_folders_of_the_host_are_found_in_the_options(options: str, binds: str) -> None:
    """Volumes are not among them, whether they have a name or not."""
    assert admission.user_binds(tuple(options.split())) == tuple(binds.split())


@pytest.fixture
def boxed(fake: FakeHost) -> Callable[[], ImageRef]:
    """Give a function that keeps an image in the store alone."""

    def keep() -> ImageRef:
        store = fake.host.store()
        elsewhere = fake_host(fake.host.paths.run).engine
        image = elsewhere.add_image("localhost/mine:1", b"layer")
        folder = fake.host.paths.scratch / "image"
        elsewhere.save_image(image, folder)
        push = store.begin("push", "job", "host")
        imagebox.put(store, push, image, folder, threads=None, tell=None)
        push.end()
        return image

    return keep


def test_image_that_the_engine_has_is_not_fetched(fake: FakeHost) -> None:
    """Neither store nor registry is asked."""
    image = fake.engine.add_image("localhost/mine:1", b"layer")
    assert admission.has_image(fake.host, image)
    assert admission.get_image(fake.host, fake.host.store(), image) is None


def test_image_in_the_store_is_loaded(fake: FakeHost, boxed: Callable[[], ImageRef]) -> None:
    """The engine has it afterwards."""
    image = boxed()
    assert not admission.has_image(fake.host, image)
    assert admission.get_image(fake.host, fake.host.store(), image) is None
    assert fake.engine.image(image.id) == image


def test_image_of_an_unreachable_registry_cannot_be_had(fake: FakeHost) -> None:
    """The reason is the engine's own."""
    image = replace(IMAGE, digest="host/x@sha256:1")
    assert admission.get_image(fake.host, fake.host.store(), image) == (
        f"image {IMAGE.name} is not here and cannot be had:"
        " podman: host/x@sha256:1: connection refused"
    )


def test_image_that_is_nowhere_is_named_with_the_store(fake: FakeHost) -> None:
    """The user learns where it was looked for."""
    store = fake.host.store()
    said = f"image {IMAGE.name} (111111111111) is not here, and neither is it in {store}"
    assert admission.get_image(fake.host, store, IMAGE) == said


def test_bucket_that_this_host_cannot_open_is_a_reason(fake: FakeHost, tmp_path: Path) -> None:
    """Asked before the source is frozen: the job's snapshots would be lost to it here."""
    key = tmp_path / "absent"
    asked = _demand(fake, store=Address("s3://bucket/prefix", str(key)))
    (reason,) = admission.refusals(fake.host, asked)
    assert reason == f"key file {key}: No such file or directory"
    assert not admission.sees_store(fake.host, asked)


def test_path_is_the_same_store_only_if_it_has_the_same_id(fake: FakeHost, tmp_path: Path) -> None:
    """On another host it may be another folder, or none; then snapshots are sent."""
    place = Address(str(tmp_path / "store"))
    assert not admission.sees_store(fake.host, _demand(fake, store=place, store_id="x"))
    store = fake.host.store(place, make=True)
    assert admission.sees_store(fake.host, _demand(fake, store=place, store_id=store.id))
    assert not admission.sees_store(fake.host, _demand(fake, store=place, store_id="x"))
    assert admission.refusals(fake.host, _demand(fake, store=place, store_id="x")) == []
