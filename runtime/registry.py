"""Snapshots between a store and a registry."""

import platform
from dataclasses import dataclass, replace

from spotrun.images.address import Address
from spotrun.images.errors import NotExportable, UsageError
from spotrun.images.manifest import Manifest, PhaseRecord
from spotrun.images.oci import credentials, receive, reference, send
from spotrun.images.oci.reference import Reference
from spotrun.images.oci.registry import Registry
from spotrun.images.seal import Plain
from spotrun.images.store import Store
from spotrun.runtime import locks, lookup
from spotrun.runtime.host import Host
from spotrun.runtime.steps import Steps, room
from spotrun.runtime.transaction import Observer


@dataclass(frozen=True, slots=True)
class Pushed:
    """What came of a push into a registry."""

    job: str
    snapshot: str
    reference: str
    digest: str
    """Of the artefact."""
    bytes: int
    """That were sent; the registry had the rest."""
    base: str | None
    """Where the image is that the job runs; None: no registry has it."""
    phases: list[PhaseRecord]


@dataclass(frozen=True, slots=True)
class Pulled:
    """What came of a pull from a registry."""

    job: str
    snapshot: str
    reference: str
    store: str
    new: bool
    """False: the store has had the snapshot already."""
    phases: list[PhaseRecord]


def push(
    host: Host,
    which: str,
    target: str,
    *,
    store: Address | None,
    plain_http: bool,
    unencrypted: bool,
    observer: Observer,
) -> Pushed:
    """Put a snapshot, or a job's newest, into a registry."""
    place = reference.parse(target)
    if place.digest:
        raise UsageError(message=f"{target}: only a pull can name a digest, which comes of a push")
    source, manifest = lookup.snapshot(host, which, store)
    _open_to_read(source, manifest, unencrypted=unencrypted)
    registry, steps = _registry(host, place, plain_http=plain_http), Steps(host, observer)
    with room(host, f"push-{manifest.snapshot}", images=manifest.memory_bytes) as (files, more):
        with lookup.held(source, manifest.job):
            steps.do("fetch", lambda: source.fetch(manifest, files, tell=observer.progress), int)
        packed = steps.do(
            "pack",
            lambda: send.pack(
                registry, manifest, files, more, runner=host.runner, tell=observer.progress
            ),
        )
        sent = steps.do(
            "push",
            lambda: send.send(registry, packed, tell=observer.progress),
            lambda it: it.bytes,
        )
    return Pushed(
        job=manifest.job,
        snapshot=manifest.snapshot,
        reference=str(replace(place, tag=place.wanted)),
        digest=sent.digest,
        bytes=sent.bytes,
        base=manifest.image.digest,
        phases=steps.records,
    )


def pull(
    host: Host, source: str, *, store: Address | None, plain_http: bool, observer: Observer
) -> Pulled:
    """Take a snapshot from a registry into a store."""
    place = reference.parse(source)
    registry, steps = _registry(host, place, plain_http=plain_http), Steps(host, observer)
    found, described = receive.look(registry)
    job = described.job
    target = host.store(lookup.store_of(host, job, store), make=True)
    with locks.hold(host.paths.locks, job, "pull", host.clock.now(), wait=False):
        new = not target.has(job, described.snapshot)
        if new:
            name = f"pull-{described.snapshot}"
            with room(host, name, images=described.memory_bytes) as (files, more):
                got = steps.do(
                    "pull",
                    lambda: receive.receive(
                        registry, found, described, files, more,
                        runner=host.runner, tell=observer.progress,
                    ),
                    lambda it: it.bytes,
                )  # fmt: skip
                push = target.begin(name, job, platform.node())
                content = steps.do(
                    "store",
                    lambda: push.store(
                        files, got.manifest.files, threads=None, tell=observer.progress
                    ),
                    lambda _: push.moved,
                )
                push.publish(replace(got.manifest, content=content))
                push.end()
    return Pulled(
        job=job,
        snapshot=described.snapshot,
        reference=str(place),
        store=str(target),
        new=new,
        phases=steps.records,
    )


def _open_to_read(store: Store, manifest: Manifest, *, unencrypted: bool) -> None:
    """Refuse to carry what a store keeps secret to where it is none, unless the user says so."""
    if isinstance(store.seal, Plain) or unencrypted:
        return
    reason = (
        f"{store} is encrypted, and who can read the registry could read its memory and files;"
        " --unencrypted does it nevertheless"
    )
    raise NotExportable(snapshot=manifest.snapshot, verb="pushed", reason=reason)


def _registry(host: Host, place: Reference, *, plain_http: bool) -> Registry:
    return Registry(place, credentials.find(place, host.runner), plain_http=plain_http)
