"""The part of a capture that has to do with the job's store: what is staged becomes a snapshot.

A store that cannot be reached is no reason to lose the instant: the snapshot is then kept on this
host (unsent.py).
"""

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Final, NoReturn

from spotrun.images import imagebox, logformat
from spotrun.images.errors import LeaseLost, NotCapturable, SpotrunError, StoreUnavailable
from spotrun.images.logformat import LogFile
from spotrun.images.manifest import Manifest
from spotrun.images.pushing import Push
from spotrun.images.recipe import Content
from spotrun.images.store import file_sizes
from spotrun.runtime import facts, fence, fitness, tenure, unsent
from spotrun.runtime.captured import IMAGES, CaptureState, spec_of, staged
from spotrun.runtime.host import Host
from spotrun.runtime.transaction import Session

_LEAST: Final = 64 << 20
"""Bytes that a store must have free."""


def look(host: Host, state: CaptureState) -> None:
    """Note if the store cannot be reached, and refuse to fill it to the brim.

    How much of the job it has already is not known yet.
    """
    if state.trouble:
        return
    try:
        store = host.store(state.store)
    except StoreUnavailable as error:
        _note_trouble(host, state, error)
        return
    free = store.backend.free()
    if free is not None and free < _LEAST:
        reason = f"{store} has {fitness.size(free)} free; {fitness.size(_LEAST)} must be"
        if not state.last or state.store == host.own_store:
            raise NotCapturable(job=state.job, reason=reason)
        state.trouble = reason


def begin(session: Session, state: CaptureState) -> None:
    """Learn what the store has of the job already."""
    if not state.trouble:
        try:
            _push(session, state)
        except StoreUnavailable as error:
            _note_trouble(session.host, state, error)


def abandon(session: Session, state: CaptureState) -> None:
    """Give up what is stored so far."""
    if not state.trouble:  # else the hold lapses by itself
        with suppress(SpotrunError):
            session.host.store(state.store).abandon(state.snapshot)


def end(session: Session, state: CaptureState) -> None:
    """Let others delete again in the store."""
    with suppress(SpotrunError):  # then the hold lapses by itself
        session.host.store(state.store).end(state.snapshot)


def save_image(session: Session, state: CaptureState) -> int:
    """Keep an image that no registry has in the store, once."""
    if state.trouble or state.image.digest:
        return 0
    host, store, push = session.host, session.host.store(state.store), _push(session, state)
    if push.image(state.image):
        return 0
    folder = staged(session, state) / "image"
    host.engine.save_image(state.image, folder)
    tell = session.observer.progress
    sent = imagebox.put(store, push, state.image, folder, threads=_share(host), tell=tell)
    shutil.rmtree(folder)
    return sent


def ahead(session: Session, state: CaptureState) -> AbstractContextManager[None]:
    """Send the memory while it is being dumped: who ends or moves waits for the store anyway."""
    if state.trouble:
        return nullcontext()
    return _push(session, state).ahead(staged(session, state), IMAGES, state.memory)


def store(session: Session, state: CaptureState) -> int:
    """Send the files, of which nobody sees anything yet."""
    folder = staged(session, state)
    if state.log:
        logformat.normalise(LogFile(folder / "log", state.log_format))
    state.files = file_sizes(folder)
    threads = _share(session.host) if state.left_running else None
    with _kept_if_not_taken(session, state):
        push, tell = _push(session, state), session.observer.progress
        state.content = push.store(folder, state.files, threads=threads, tell=tell)
    return push.moved


def publish(session: Session, state: CaptureState) -> int:
    """Commit the snapshot: from here on the job is safe; LeaseLost: another host has the job."""
    manifest = _manifest(session, state)
    with _kept_if_not_taken(session, state):
        held = tenure.joined(session.host, state.job, state.store)
        try:
            _push(session, state).publish(manifest, held)
        except LeaseLost:
            fence.close(session.host.paths, state.job)
            raise
    return manifest.bytes


def published(session: Session, state: CaptureState) -> bool:
    """Ask the store; if it cannot tell, the job goes on, which is right in either case."""
    try:
        return session.host.store(state.store).has(state.job, state.snapshot)
    except SpotrunError:
        return False


def _push(session: Session, state: CaptureState) -> Push:
    store = session.host.store(state.store)
    return store.begin(state.snapshot, state.job, platform.node())


def _note_trouble(host: Host, state: CaptureState, error: StoreUnavailable) -> None:
    """Go on nevertheless: the snapshot is kept on this host, unless that is what is in trouble."""
    if state.store == host.own_store:
        raise error
    state.trouble = str(error)


@contextmanager
def _kept_if_not_taken(session: Session, state: CaptureState) -> Iterator[None]:
    """Keep the snapshot on this host if its store does not take it, and raise Unsent."""
    if state.trouble:
        _keep(session, state, state.trouble)
    try:
        yield
    except StoreUnavailable as error:
        _note_trouble(session.host, state, error)
        _keep(session, state, state.trouble)


def _keep(session: Session, state: CaptureState, reason: str) -> NoReturn:
    folder, manifest = staged(session, state), _manifest(session, state)
    unsent.keep(session.host, folder, manifest, state.store, reason)


def _share(host: Host) -> int:
    """Return how many threads may work while the job does."""
    return host.threads or max(1, (os.cpu_count() or 1) // 2)


def _manifest(session: Session, state: CaptureState) -> Manifest:
    host = session.host
    return Manifest(
        snapshot=state.snapshot,
        job=state.job,
        created=host.clock.now().isoformat(timespec="milliseconds"),
        kind=state.kind,
        epoch=state.epoch,
        parent=state.parent,
        image=state.image,
        run=state.run,
        host=state.host or facts.gather(host.runner, host.engine.version()),
        oci_spec=spec_of(state),
        trees=tuple(state.trees),
        log="log" if state.log else None,
        files=state.files,
        content=state.content or Content((), ()),
        phases=tuple(state.records),
        copying=state.copying,
        left_running=state.left_running,
        handover=state.handover,
        care=state.care,
    )
