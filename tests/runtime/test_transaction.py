"""A list of phases is done whole or taken back, whatever ends it."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from spotrun.images import durable
from spotrun.images.address import Address
from spotrun.images.errors import StateDamaged, Unfinished, Unsettled
from spotrun.runtime import locks, scratch, settle, transaction
from spotrun.runtime.captured import CaptureState
from spotrun.runtime.transaction import State
from tests.fakes.host import FakeHost, fake_host
from tests.fakes.observer import Listener
from tests.fakes.phases import COMMIT, NAMES, TRANSACTION, Broken, Story, session, steps
from tests.fakes.snapshots import NOW, manifest

_AT = NAMES.index(COMMIT)
_AFTER = NAMES[_AT + 1 :]
_EVENTS = steps("do", NAMES)


@pytest.fixture
def fake(tmp_path: Path) -> FakeHost:
    """Give a host without unfinished transactions."""
    return fake_host(tmp_path / "host")


@pytest.fixture
def story(tmp_path: Path) -> Callable[..., Story]:
    """Give a function that returns the state of a transaction to be run."""
    folder = tmp_path / "story"
    folder.mkdir()

    def state(*, fail: str = "", die: str = "") -> Story:
        return Story(job="job", folder=str(folder), fail=fail, die=die)

    return state


def _killed(call: Callable[[], object]) -> None:
    """Make a call in a process of its own, which must be killed in it."""
    pid = os.fork()
    if pid == 0:
        try:
            call()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def _left(fake: FakeHost) -> transaction.Entry:
    """Return the one journal that is left, as the next spotrun finds it."""
    (entry,) = transaction.entries(fake.host)
    return entry


def _resume(fake: FakeHost, *, fail: str = "", die: str = "") -> bool:
    """Settle what is left; the phases meet this trouble, not what the dead process met."""
    entry = _left(fake)
    state = replace(msgspec.json.decode(entry.state, type=Story), fail=fail, die=die)
    left = replace(entry, state=msgspec.Raw(msgspec.json.encode(state)))
    return transaction.resume(session(fake.host)[0], TRANSACTION, left)


def test_all_phases_are_done_in_order(fake: FakeHost, story: Callable[..., Story]) -> None:
    """Nothing is taken back, and no journal is left."""
    state = story()
    transaction.run(session(fake.host)[0], TRANSACTION, state)
    assert state.told == _EVENTS
    assert list(fake.host.paths.journal.iterdir()) == []


def test_every_phase_is_recorded_and_told(fake: FakeHost, story: Callable[..., Story]) -> None:
    """Each has its time and the bytes that it moved."""
    state = story()
    opened, listener = session(fake.host)
    transaction.run(opened, TRANSACTION, state)
    assert [it.name for it in state.records] == list(NAMES) == listener.begun
    assert [it.bytes for it in state.records] == [len(name) for name in NAMES]
    assert {it.seconds for it in state.records} == {0.5}
    assert listener.ended == state.records


@pytest.mark.parametrize("event", _EVENTS[: _EVENTS.index(f"begin {COMMIT}") + 1])
def test_failing_phase_is_taken_back_with_all_before_it(
    fake: FakeHost, story: Callable[..., Story], event: str
) -> None:
    """The last first, the failing one too, and no journal is left."""
    state = story(fail=event)
    with pytest.raises(Broken, match=event):
        transaction.run(session(fake.host)[0], TRANSACTION, state)
    name = event.split()[1]
    asked = ["committed?"] if name == COMMIT else []
    undone = steps("undo", NAMES[: NAMES.index(name) + 1])
    assert state.told == [*_EVENTS[: _EVENTS.index(event) + 1], *asked, *undone]
    assert state.effects == []
    assert list(fake.host.paths.journal.iterdir()) == []


def test_failure_behind_a_decision_that_took_effect_does_not_matter(
    fake: FakeHost, story: Callable[..., Story]
) -> None:
    """There is no way back, so the rest is done."""
    state = story(fail=f"end {COMMIT}")
    transaction.run(session(fake.host)[0], TRANSACTION, state)
    assert state.effects == list(NAMES)
    assert list(fake.host.paths.journal.iterdir()) == []


@pytest.mark.parametrize("name", _AFTER)
def test_failure_after_the_decision_takes_nothing_back(
    fake: FakeHost, story: Callable[..., Story], name: str
) -> None:
    """The journal stays, and the next spotrun does the rest; it is not told as a failure."""
    state = story(fail=f"begin {name}")
    said = f"^tell of job 'job' is done, but not '{name}' after it: begin {name}$"
    with pytest.raises(Unfinished, match=said):
        transaction.run(session(fake.host)[0], TRANSACTION, state)
    assert not [event for event in state.told if event.startswith("undo")]
    assert _left(fake).phase == name
    assert _resume(fake)
    assert state.effects == list(NAMES)
    assert transaction.entries(fake.host) == []


def test_failing_undo_does_not_stop_the_others(
    fake: FakeHost, story: Callable[..., Story], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says so, and the journal stays for the next spotrun to try again."""
    state, tell = story(fail="undo second"), Story.tell

    def fail_twice(it: Story, event: str) -> None:
        if event == f"begin {COMMIT}":
            raise Broken(event)
        tell(it, event)

    with monkeypatch.context() as patched:
        patched.setattr(Story, "tell", fail_twice)
        with pytest.raises(Broken, match=COMMIT) as failed:
            transaction.run(session(fake.host)[0], TRANSACTION, state)
    assert failed.value.__notes__ == ["taking it back: undo second; the next spotrun tries again"]
    assert state.told[-3:] == steps("undo", NAMES[: _AT + 1])
    assert state.effects == ["second"]
    assert not _resume(fake)
    assert state.effects == []
    assert transaction.entries(fake.host) == []


def test_failing_undo_of_a_resumed_transaction_keeps_the_journal(
    fake: FakeHost, story: Callable[..., Story]
) -> None:
    """It can be tried as often as it takes."""
    state = story(die="begin second")
    _killed(lambda: transaction.run(session(fake.host)[0], TRANSACTION, state))
    entry = _left(fake)
    with pytest.raises(Broken):
        _resume(fake, fail="undo second")
    assert _left(fake) == entry
    assert not _resume(fake)
    assert transaction.entries(fake.host) == []


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_interrupt_takes_back_like_a_failure(
    fake: FakeHost, story: Callable[..., Story], interrupt: type[BaseException]
) -> None:
    """Ctrl-C leaves nothing behind."""
    state = story()
    opened, listener = session(fake.host)
    with pytest.MonkeyPatch.context() as patched:

        def stop(_: object, phase: str) -> None:
            if phase == "second":
                raise interrupt

        patched.setattr(type(listener), "begin", stop)
        with pytest.raises(interrupt):
            transaction.run(opened, TRANSACTION, state)
    assert state.told == [*steps("do", ["first"]), *steps("undo", ["first", "second"])]
    assert transaction.entries(fake.host) == []


@pytest.mark.parametrize("event", _EVENTS)
def test_killed_process_is_settled_by_the_next_one(
    fake: FakeHost, story: Callable[..., Story], event: str
) -> None:
    """Before the decision all is taken back, after it the rest is done; in it, it is asked."""
    state = story(die=event)
    _killed(lambda: transaction.run(session(fake.host)[0], TRANSACTION, state))
    assert _left(fake).phase == event.split()[1]
    forward = _resume(fake)
    assert forward == (_EVENTS.index(event) > _EVENTS.index(f"begin {COMMIT}"))
    assert state.effects == (list(NAMES) if forward else [])
    assert ("committed?" in state.told) == (event.split()[1] == COMMIT)
    assert transaction.entries(fake.host) == []


@pytest.mark.parametrize("name", NAMES)
def test_process_killed_on_writing_the_journal_is_settled(
    fake: FakeHost, story: Callable[..., Story], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The phase was announced, but has not begun."""
    state, write = story(), durable.write_atomic

    def die(path: Path, data: bytes) -> None:
        write(path, data)
        if transaction.entries(fake.host)[0].phase == name:
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(transaction, "write_atomic", die)
    _killed(lambda: transaction.run(session(fake.host)[0], TRANSACTION, state))
    monkeypatch.undo()
    assert _resume(fake) == (name in _AFTER)
    assert state.effects == (list(NAMES) if name in _AFTER else [])


@pytest.mark.parametrize("name", NAMES[: _AT + 1])
def test_process_killed_while_it_takes_back_is_settled(
    fake: FakeHost, story: Callable[..., Story], name: str
) -> None:
    """What was undone already is undone once more, and so is the rest."""
    state = story(fail=f"begin {COMMIT}", die=f"undo {name}")
    _killed(lambda: transaction.run(session(fake.host)[0], TRANSACTION, state))
    assert not _resume(fake)
    assert state.told[-3:] == steps("undo", NAMES[: _AT + 1])
    assert state.effects == []


def test_process_killed_while_it_settles_is_settled(
    fake: FakeHost, story: Callable[..., Story]
) -> None:
    """A resumed transaction is in the journal as any other."""
    state = story(die=f"end {COMMIT}")
    _killed(lambda: transaction.run(session(fake.host)[0], TRANSACTION, state))
    _killed(lambda: _resume(fake, die="begin last"))
    assert _left(fake).phase == "last"
    assert _resume(fake)
    assert state.effects == list(NAMES)
    assert state.told.count("begin tidy") == 1


def test_journal_has_all_that_the_phases_know(fake: FakeHost, story: Callable[..., Story]) -> None:
    """Records of finished phases too."""
    state = story(die="end second")
    _killed(lambda: transaction.run(session(fake.host)[0], TRANSACTION, state))
    entry = transaction.entry_of(fake.host, "job")
    assert entry is not None
    assert (entry.verb, entry.job) == ("tell", "job")
    assert b'"name":"first"' in bytes(entry.state)
    assert transaction.entry_of(fake.host, "other") is None


def test_phase_with_nothing_to_take_back_does_not_wait_for_the_disk(
    fake: FakeHost, story: Callable[..., Story]
) -> None:
    """Killed in it, all is taken back that was begun before."""
    first, second, *others = TRANSACTION.phases
    plain = replace(TRANSACTION, phases=[first, replace(second, undo=None), *others])
    state = story(die="begin second")
    _killed(lambda: transaction.run(session(fake.host)[0], plain, state))
    assert _left(fake).phase == "first"
    assert not _resume(fake)
    assert state.effects == []
    assert transaction.entries(fake.host) == []


def test_unsettled_work_is_not_written_over(fake: FakeHost, story: Callable[..., Story]) -> None:
    """Its journal is all that can set the job right: nothing else begins before."""
    _killed(lambda: transaction.run(session(fake.host)[0], TRANSACTION, story(die="end second")))
    before = transaction.entry_of(fake.host, "job")
    with pytest.raises(Unsettled, match="an interrupted tell of job 'job' is not settled yet"):
        transaction.run(session(fake.host)[0], TRANSACTION, story())
    assert transaction.entry_of(fake.host, "job") == before


def _interrupted(
    fake: FakeHost, job: str, phase: str = "dump processes", store: Address | None = None
) -> tuple[str, Path]:
    """Leave a checkpoint that was killed in a phase; return container and scratch folder."""
    container = fake.engine.create([f"--name={job}", fake.engine.add_image(job, b"layer").name])
    fake.engine.start(container)
    fake.oci.freeze(container)
    state = CaptureState(
        job=job,
        container=container,
        snapshot=f"of-{job}",
        store=store or fake.host.own_store,
        left_running=False,
        image=manifest().image,
        run=manifest().run,
        epoch=0,
        parent=None,
        pid=1,
        bundle="",
        upper="",
        log=None,
        volumes=[],
    )
    entry = _entry("checkpoint", phase, state)
    (fake.host.paths.journal / f"{job}.json").write_bytes(msgspec.json.encode(entry))
    return container, scratch.make(fake.host.paths, state.snapshot, images=0, memory=0)


def test_killed_checkpoint_is_settled_at_the_job(fake: FakeHost) -> None:
    """Its container goes on, and what was staged is gone."""
    container, staged = _interrupted(fake, "one")
    (outcome,) = settle.settle(fake.host, Listener())
    assert (outcome.job, outcome.verb, outcome.finished) == ("one", "checkpoint", False)
    assert outcome.error is None
    assert fake.oci.status(container) == "running"
    assert not staged.exists()
    assert settle.settle(fake.host, Listener()) == []


@pytest.mark.parametrize("trouble", ["gone", "locked", "foreign"])
def test_job_goes_on_when_its_store_cannot_tell_whether_it_was_saved(
    fake: FakeHost, tmp_path: Path, trouble: str
) -> None:
    """Nothing stays frozen, and no memory image stays behind."""
    place, key = tmp_path / "store", tmp_path / "key"
    key.write_text("a secret of more than sixteen bytes")
    store = Address(str(place), str(key))
    if trouble == "foreign":
        place.mkdir()
        (place / "store.json").write_text("{}")
    if trouble == "locked":
        key.unlink()
    container, staged = _interrupted(fake, "one", "publish", store)
    (outcome,) = settle.settle(fake.host, Listener())
    assert (outcome.finished, outcome.error) == (False, None)
    assert fake.oci.status(container) == "running"
    assert not staged.exists()


def test_job_that_another_spotrun_works_on_is_not_settled(fake: FakeHost) -> None:
    """The others are."""
    held, staged = _interrupted(fake, "held")
    free, _ = _interrupted(fake, "free")
    with locks.hold(fake.host.paths.locks, "held", "checkpoint", NOW, wait=False):
        outcomes = settle.settle(fake.host, Listener())
    assert [it.job for it in outcomes] == ["free"]
    assert (fake.oci.status(held), fake.oci.status(free)) == ("paused", "running")
    assert staged.exists()
    assert [it.job for it in settle.settle(fake.host, Listener())] == ["held"]


def test_job_that_cannot_be_settled_does_not_stop_the_others(fake: FakeHost) -> None:
    """Its journal stays for the next spotrun."""
    entry = _entry("a verb of another version", "x", State(job="bad"))
    (fake.host.paths.journal / "bad.json").write_bytes(msgspec.json.encode(entry))
    _interrupted(fake, "good")
    outcomes = {it.job: it for it in settle.settle(fake.host, Listener())}
    assert outcomes["good"].error is None
    assert isinstance(outcomes["bad"].error, Exception)
    assert [it.job for it in transaction.entries(fake.host)] == ["bad"]


def _entry(verb: str, phase: str, state: State) -> transaction.Entry:
    return transaction.Entry(verb, state.job, phase, msgspec.Raw(msgspec.json.encode(state)))


def test_journal_that_cannot_be_read_stops_its_own_job_only(
    fake: FakeHost, story: Callable[..., Story]
) -> None:
    """It is named, for its user to decide."""
    (fake.host.paths.journal / "other.json").write_text("junk")
    assert transaction.entries(fake.host) == []
    transaction.run(session(fake.host)[0], TRANSACTION, story())
    with pytest.raises(StateDamaged, match=r"other\.json cannot be read: "):
        transaction.entry_of(fake.host, "other")
