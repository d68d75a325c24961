"""SIGKILL anywhere in a push, a prune, a rotation of keys or a restore harms no snapshot."""

import multiprocessing
import os
import shutil
import signal
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from spotrun.images import opening
from spotrun.images.address import Address
from spotrun.images.care import Policy
from spotrun.images.errors import StoreLocked
from spotrun.images.prune import prune
from spotrun.images.store import Store
from spotrun.images.verify import verify
from tests.faults import killed_store
from tests.faults.killed_store import JOBS, Act

pytestmark = pytest.mark.slow

_KILLS = 200
_VERBS = ("push", "push", "prune", "prune", "rotate", "restore")
_LONGEST = 0.2
"""Seconds after which a process is killed at the latest, where its changes are not counted."""
_DAYS = 2 * 24 * 3600


class _Store:
    """A store, what must be in it, and what has been done to it."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Make it."""
        self.kills: Counter[str] = Counter()
        self.committed: set[tuple[str, str]] = set()
        self._folder = folder
        self._random = Random(seed)
        self._number = 0
        self._changes = dict.fromkeys(_VERBS, 40)
        """So many changes of the file system, about, a verb makes."""
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([killed_store.__name__])
        self._root = folder / "store"
        self._address = Address(str(self._root), self._new_key())
        opening.open_store(self._address, make=True)

    def step(self) -> None:
        """Let a process do something and be killed in it, unless it is done before."""
        self._number += 1
        all_there = {job for job, _ in self.committed} == set(JOBS)
        verb = self._random.choice(_VERBS) if all_there else "push"
        if self._random.random() < 0.3:  # else nothing is pruned for long
            self._age("holds")
        counted = self._random.random() < 0.8
        act = Act(
            verb=verb,
            number=self._number,
            address=self._address,
            new_key_file=self._new_key(),
            folder=self._folder / "work",
            dies_at=self._random.randrange(self._changes[verb]) if counted else None,
        )
        killed = self._run(act)
        self.kills[act.verb] += killed
        if counted:
            self._changes[verb] = max(5, self._changes[verb] + (1 if killed else -2))
        self._check(act, killed=killed)

    def finish(self) -> None:
        """Prune when nobody holds anything any more."""
        for folder in ("holds", "~new"):
            self._age(folder)
        store = self._open()
        assert prune(store, Policy(), host="host").in_the_way == ()
        found = verify(store, read_data=True)
        assert (found.findings, found.unneeded) == ((), 0)
        assert list((self._root / "~new").iterdir()) == []
        assert set(store.ids()) == self.committed

    def _run(self, act: Act) -> bool:
        shutil.rmtree(act.folder, ignore_errors=True)
        act.folder.mkdir()
        process = self._context.Process(target=killed_store.act, args=(act,))
        process.start()
        if act.dies_at is None:
            process.join(self._random.uniform(0, _LONGEST))
            process.kill()
        process.join(60)
        assert process.exitcode in {0, -signal.SIGKILL}, (act, process.exitcode)
        killed = process.exitcode != 0
        process.close()
        return killed

    def _check(self, act: Act, *, killed: bool) -> None:
        """Everything that was committed is there, and whole."""
        if act.verb == "rotate":
            self._address = self._opening(act.new_key_file, killed=killed)
        store, before = self._open(), self.committed
        self.committed = set(store.ids())
        made = {(act.job, act.snapshot)} if act.verb == "push" else set()
        assert self.committed - before <= made
        assert killed or made <= self.committed
        gone = before - self.committed
        assert not gone or act.verb == "prune"
        assert {max(it for it in before if it[0] == job) for job, _ in before} <= self.committed
        assert verify(store, read_data=True).findings == ()
        for at, (job, snapshot) in enumerate(sorted(self.committed)):
            killed_store.fetch(store, job, snapshot, act.folder / f"check-{at}")

    def _opening(self, new_key: str, *, killed: bool) -> Address:
        """Return the address with the key that opens the store: after a rotation the new one."""
        address = Address(self._address.url, new_key)
        try:
            opening.open_store(address, make=False)
        except StoreLocked:
            assert killed
            return self._address
        return address

    def _open(self) -> Store:
        opening._opened.cache_clear()  # noqa: SLF001 # as another process would
        return opening.open_store(self._address, make=False)

    def _new_key(self) -> str:
        path = self._folder / f"key-{self._number}"
        path.write_text(f"the secret of number {self._number}")
        return str(path)

    def _age(self, folder: str) -> None:
        """Let two days pass since files were written, by the clock of the store."""
        for path in (self._root / folder).glob("*"):
            written = path.stat().st_mtime - _DAYS
            os.utime(path, (written, written))


def test_store_whose_users_are_killed_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each of 200 kills; and a prune in the end leaves nothing that is not needed."""
    killed_store.hasten(monkeypatch)
    store = _Store(tmp_path, seed=1)
    while store.kills.total() < _KILLS:
        store.step()
    store.finish()
    assert min(store.kills[verb] for verb in _VERBS) > 4, store.kills
