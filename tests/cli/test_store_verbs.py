"""The verbs that look after a store: prune, verify, repair and key."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spotrun.images.address import Address
from spotrun.images.holds import Hold, Purpose
from spotrun.images.opening import open_store
from spotrun.images.runspec import ImageRef
from spotrun.images.store import Store
from spotrun.runtime import unsent
from tests.cli.conftest import Cli, Said
from tests.fakes.host import FakeHost
from tests.fakes.stores import objects, pushed, written

_GOLDEN = Path(__file__).parent / "golden"
_REGISTERED = ImageRef("docker.io/library/other:1", "2" * 64, "other@sha256:2", ())
_HINT = "name the file that has its key with --key-file, or set SPOTRUN_KEY\n"
_RANDOM_PARTS = re.compile(r"[0-9a-f]{64}|20\d\d-\d\d-\d\dT[0-9:.]+(?:Z|\+00:00)")


def _same(said: Said, golden: str) -> bool:
    """Compare with a golden example, in which times, ids of packs and their sizes are `…`."""
    shown = re.sub(r"packs/[0-9a-f]{2}/", "packs/…/", _RANDOM_PARTS.sub("…", said.out))
    shown = re.sub(r'("bytes\w*":)[1-9]\d*', r'\1"…"', shown)
    wanted: Any = json.loads((_GOLDEN / f"{golden}.json").read_bytes())
    assert json.loads(shown) == wanted
    return True


@pytest.fixture
def store(fake: FakeHost, tmp_path: Path) -> Store:
    """Give the host's own store, with three snapshots of a job and one of another."""
    made = fake.host.store()
    for job, number in (("train", 0), ("train", 1), ("train", 2), ("other", 0)):
        folder = written(
            tmp_path / f"{job}-{number}", {f"{job}-{number}": f"{job} {number} ".encode() * 100}
        )
        snapshot = f"20261201T10{number:02}00Z-00000a"
        pushed(made, folder, job=job, snapshot=snapshot, image=_REGISTERED)
    return made


@pytest.fixture
def broken(store: Store) -> str:
    """Give the key of the newest snapshot's pack, which is broken."""
    key = store.find("train", None).content.packs[0].id
    pack = f"packs/{key[:2]}/{key}"
    store.backend.put(pack, store.backend.get(pack)[:-1])
    return pack


def test_prune_shows_what_would_go(cli: Cli, store: Store) -> None:
    """As in the golden example; nothing is done."""
    before = objects(store)
    assert _same(cli(*"prune train --keep-last 1 --format json".split()), "prune")
    assert objects(store) == before


def test_prune_removes_what_it_has_shown(cli: Cli, store: Store) -> None:
    """And says so, to people."""
    shown, done = cli("prune", "--keep-last", "2"), cli("prune", "--keep-last", "2", "--yes")
    assert "1 of 4 snapshots, 0 images and 1 packs (" in shown.err
    assert shown.err.endswith("would go; do it with --yes\n")
    assert done.err == shown.err.replace("would go; do it with --yes", "have gone")
    assert done.out == shown.out
    assert [line.split()[0::4] for line in done.out.splitlines()] == [
        ["SNAPSHOT", "KEPT"],
        ["20261201T100000Z-00000a", "newest,"],
        ["20261201T100000Z-00000a", "no"],
        ["20261201T100100Z-00000a", "last"],
        ["20261201T100200Z-00000a", "newest,"],
    ]
    assert len(store.ids("train")) == 2


@pytest.mark.usefixtures("store")
def test_prune_tells_programs_what_it_is_about(cli: Cli) -> None:
    """A step after the other."""
    said = cli(*"prune --keep-last 2 --yes --format json".split())
    events = [json.loads(line) for line in said.err.splitlines()]
    assert [(it["phase"], it["state"]) for it in events if it["event"] == "phase"] == [
        (step, state)
        for step in ("look", "delete snapshots", "delete packs")
        for state in ("begin", "end")
    ]


def test_prune_takes_every_rule(cli: Cli, store: Store) -> None:
    """They add up."""
    rules = "--keep-hourly 1 --keep-daily 1 --keep-weekly 1 --keep-within 1w2d"
    rows = cli("prune", *rules.split(), "--format", "json").envelope["data"]["kept"]
    assert rows[-1]["reasons"] == ["newest", "hourly", "daily", "weekly", "within"]
    assert {tuple(it["reasons"]) for it in rows[1:-1]} == {("within",)}
    assert len(store.ids()) == 4


def test_prune_without_rules_removes_no_snapshot(cli: Cli, store: Store) -> None:
    """Only what nothing needs."""
    assert cli("prune", "--yes").err.startswith("spotrun: 0 of 4 snapshots, 0 images and 0 packs")
    assert len(store.ids()) == 4


def test_prune_names_who_is_in_the_way(cli: Cli, store: Store) -> None:
    """The job, the host and since when."""
    store.holds.write("theirs", Hold(Purpose.PUSH, "train", "host-b"))
    assert _same(cli(*"prune --keep-last 2 --yes --format json".split()), "prune-in-the-way")
    assert "packs stay for a push of job 'train' by host-b, since 20" in cli("prune").err
    store.backend.put("holds/theirs", b"nothing that makes sense")
    assert "packs stay for an unknown hold, since 20" in cli("prune").err


def test_prune_leaves_what_is_to_be_sent(cli: Cli, fake: FakeHost, store: Store) -> None:
    """It is nowhere else yet."""
    record = {"job": "train", "snapshot": "20261201T100000Z-00000a", "store": {"url": "/other"}}
    folder = fake.host.paths.unsent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "20261201T100000Z-00000a.json").write_text(json.dumps(record))
    assert len(unsent.records(fake.host)) == 1
    cli("prune", "--keep-last", "1", "--yes")
    assert [it for _, it in store.ids("train")] == [
        "20261201T100000Z-00000a",
        "20261201T100200Z-00000a",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("prune --keep-last 0", "Invalid value for '--keep-last': 0 is not in the range x>=1."),
        (
            "prune --keep-within 2y",
            "Invalid value for '--keep-within': '2y' is not a duration like 2d, 12h or 1w3d",
        ),
        ("key add", "Missing argument 'FILE'."),
        ("key add /nonexistent", "key file /nonexistent: No such file or directory"),
    ],
)
def test_senseless_command_line_is_one_sentence(cli: Cli, words: str, said: str) -> None:
    """With the exit code of spotrun's own errors."""
    ended = cli(*words.split())
    assert (ended.status, ended.out) == (125, "")
    assert ended.err.startswith(f"spotrun: {said}\n")


def test_prune_of_an_unknown_job_is_refused(cli: Cli, store: Store) -> None:
    """Its name and the store are in the sentence."""
    said = cli("prune", "trian", "--keep-last", "1", "--yes")
    assert (said.status, len(store.ids())) == (125, 4)
    assert said.err.startswith(f"spotrun: no snapshot of job 'trian' in {store}\n")


def test_prune_of_a_damaged_store_says_what_to_do(cli: Cli, store: Store) -> None:
    """The snapshot is named."""
    store.backend.put("snapshots/train/20261201T100100Z-00000a", b"nothing that makes sense")
    said = cli("prune", "--keep-last", "1", "--yes")
    assert said.status == 125
    assert said.err.startswith("spotrun: snapshot 20261201T100100Z-00000a is damaged: its manifest")
    assert said.err.endswith("\n  `spotrun repair` takes it out of the way\n")


@pytest.mark.usefixtures("store")
def test_verify_of_a_whole_store(cli: Cli) -> None:
    """As in the golden example; people are told in a line."""
    said = cli(*"verify --read-data --format json".split())
    assert said.status == 0
    assert _same(said, "verify")
    told = cli("verify").err
    assert told.startswith("spotrun: 4 snapshots are whole: their ends of 4 packs with ")


def test_verify_of_a_damaged_store(cli: Cli, broken: str) -> None:
    """As in the golden example; the exit code is 125, and people get a table."""
    said = cli(*"verify --format json".split())
    assert said.status == 125
    assert _same(said, "verify-damaged")
    told = cli("verify")
    assert (told.status, told.err) == (125, "")
    (row,) = told.out.splitlines()[1:]
    assert re.split(" {2,}", row) == [
        broken,
        "it is too short",
        "train/20261201T100200Z-00000a",
    ]


def test_repair_shows_what_it_would_do(cli: Cli, store: Store, broken: str) -> None:
    """As in the golden example; nothing is done."""
    before = objects(store)
    assert broken in before
    said = cli(*"repair --format json".split())
    assert said.status == 0
    assert _same(said, "repair")
    assert objects(store) == before
    told = cli("repair").err
    moved = "snapshots/train/20261201T100200Z-00000a"
    assert told == (
        f"spotrun: {moved} would be moved to damaged/{moved}\nspotrun: do it with --yes\n"
    )


def test_repair_makes_everything_else_work_again(cli: Cli, store: Store, broken: str) -> None:
    """The snapshot before is the newest, and verify and prune are content."""
    said = cli("repair", "--yes", "--read-data")
    assert said.status == 0
    assert "has been moved to damaged/snapshots/train/20261201T100200Z-00000a" in said.err
    assert broken not in objects(store)
    assert store.find("train", None).snapshot == "20261201T100100Z-00000a"
    assert cli("verify", "--read-data").status == 0
    assert cli("prune", "--yes").status == 0
    assert cli("repair").err == "spotrun: nothing is damaged\n"


def test_repair_tells_what_it_cannot_mend(cli: Cli, fake: FakeHost, tmp_path: Path) -> None:
    """An image that is missing must come from elsewhere."""
    pushed(fake.host.store(), written(tmp_path / "files", {"a": b"1"}))
    said = cli("repair", "--yes")
    assert said.status == 125
    assert "it is missing, and no registry has it" in said.out


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    """Give the options that open an encrypted store, made with the secret `first`."""
    for name in ("first", "second"):
        (tmp_path / name).write_text(f"the {name} secret of this store")
    address = Address(str(tmp_path / "encrypted"), str(tmp_path / "first"))
    open_store(address, make=True)
    return ["--store", address.url, "--key-file", str(address.key_file)]


def _keys(cli: Cli, place: list[str]) -> list[str]:
    rows = cli("key", "list", *place, "--format", "json").envelope["data"]
    return [row["key"] for row in rows]


def test_keys_are_as_in_the_golden_example(cli: Cli, place: list[str]) -> None:
    """Their secrets are not shown."""
    said = cli("key", "list", *place, "--format", "json")
    shown = said.out.replace(said.envelope["data"][0]["key"], "…")
    assert _same(Said(said.status, shown, said.err), "key-list")
    said = cli("key", "list", *place)
    assert said.out.splitlines()[0].split() == ["KEY", "ADDED"]


def test_key_is_added_and_removed(cli: Cli, place: list[str], tmp_path: Path) -> None:
    """Each opens the store as long as it is there."""
    said = cli("key", "add", str(tmp_path / "second"), *place, "--format", "json")
    shown = said.out.replace(said.envelope["data"]["key"], "…")
    assert _same(Said(said.status, shown, said.err), "key")
    first, second = _keys(cli, place)
    assert said.envelope["data"]["key"] == second
    other = [*place[:3], str(tmp_path / "second")]
    assert cli("verify", *other).status == 0
    assert cli("key", "remove", first, *other).status == 0
    assert _keys(cli, other) == [second]
    assert cli("verify", *place).err.endswith("none of its keys\n  " + _HINT)
    assert cli("key", "remove", second, *other).status == 125


def test_key_is_rotated(cli: Cli, place: list[str], tmp_path: Path) -> None:
    """The other one opens the store then."""
    (first,) = _keys(cli, place)
    said = cli("key", "rotate", str(tmp_path / "second"), *place)
    assert re.fullmatch(r"spotrun: key [0-9a-f]{8} opens the store instead\n", said.err)
    other = [*place[:3], str(tmp_path / "second")]
    assert cli("verify", *other).status == 0
    assert first not in _keys(cli, other)
    assert cli("verify", *place).status == 125


@pytest.mark.usefixtures("store")
def test_store_without_encryption_has_no_keys(cli: Cli, tmp_path: Path) -> None:
    """And cannot get one."""
    said = cli("key", "list")
    assert (said.out, said.err) == ("", "spotrun: the store is not encrypted: it has no keys\n")
    (tmp_path / "new").write_text("a secret that nobody knows")
    assert cli("key", "add", str(tmp_path / "new")).status == 125
