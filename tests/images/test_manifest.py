"""The manifest's format is a contract: what was written once is read for ever."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from spotrun.images import manifest
from spotrun.images.manifest import Kind, Tree
from tests.fakes import snapshots

_GOLDEN = (Path(__file__).parent / "golden" / "manifest-1.json").read_bytes()
_NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def _changed(**fields: Any) -> bytes:  # noqa: ANN401 # any JSON
    """Return the golden document with top-level fields changed; None drops one."""
    document = {**json.loads(_GOLDEN), **fields}
    return json.dumps({key: it for key, it in document.items() if it is not None}).encode()


def test_golden_manifest_of_format_1_is_read() -> None:
    """Every part of a real job's manifest comes to the field it belongs to."""
    read = manifest.decode(_GOLDEN)
    assert (read.snapshot, read.job, read.kind) == ("20261201T052203Z-9c4abe", "train", Kind.LIVE)
    assert read.parent == "20261201T052203Z-d6af16"
    assert read.run.options[:3] == ("-d", "--name", "train")
    assert read.run.command[:2] == ("sh", "-c")
    assert read.host.engine == "podman 5.4.2"
    assert read.oci_spec["process"]["env"][1] == "RUN=7"
    assert read.trees[0] == Tree(kind="rootfs", archive="trees/0.tar", destination="/")
    assert [tree.volume for tree in read.trees] == [None, None, "data"]
    assert [(ref.size, ref.used) for ref in read.content.packs][1] == (131932, 96118)
    assert read.content.recipe == (1, 43, 1)
    assert [phase.name for phase in read.phases][:2] == ["preflight", "prepare"]


def test_golden_manifest_is_written_back_unchanged() -> None:
    """Keys, their order and the layout of the document stay as they are."""
    assert manifest.encode(manifest.decode(_GOLDEN)) == _GOLDEN


def test_sizes_are_those_of_the_files() -> None:
    """The memory that a restore needs is the size of the page images alone."""
    read = manifest.decode(_GOLDEN)
    assert read.bytes == sum(json.loads(_GOLDEN)["files"].values())
    assert read.memory_bytes == 73728 + 61440


def test_field_of_a_later_spotrun_is_let_through() -> None:
    """A field that is new in the same format hides nothing of the others."""
    assert manifest.decode(_changed(later="x")) == manifest.decode(_GOLDEN)


def test_unknown_format_is_refused_with_both_numbers() -> None:
    """Whoever meets a newer snapshot learns that it is newer, even if nothing else can be read."""
    with pytest.raises(ValueError, match=r"^format 2 is not known to this spotrun, which reads 1$"):
        manifest.decode(b'{"format": 2}')


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "truncated"),
        (_GOLDEN[: len(_GOLDEN) // 2], "truncated"),
        (b"\xff\xfe", "malformed"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "missing required field `format`"),
        (_changed(files=None), "missing required field `files`"),
        (_changed(content=None), "missing required field `content`"),
        (_changed(content={"packs": [], "recipe": [1.5]}), r"got `float` - at `\$.content.recipe"),
        (_changed(epoch="3"), r"Expected `int`, got `str` - at `\$.epoch`"),
        (_changed(kind="warm"), r"Invalid enum value 'warm' - at `\$.kind`"),
    ],
    ids=[
        "empty",
        "cut",
        "binary",
        "array",
        "no-format",
        "no-files",
        "no-content",
        "no-recipe",
        "wrong-type",
        "wrong-kind",
    ],
)
def test_damaged_document_is_refused_with_what_is_wrong(raw: bytes, said: str) -> None:
    """A ValueError names the fault and its place."""
    with pytest.raises(ValueError, match=said):
        manifest.decode(raw)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../up", "a/b", "-a", "_a", "a b", "a\n", "a" * 129]
)
def test_name_that_no_job_can_have_is_refused(name: str) -> None:
    """No name leads out of the store's folder or reads as an option."""
    with pytest.raises(ValueError, match="characters that names cannot have"):
        manifest.decode(_changed(job=name))


@pytest.mark.parametrize("name", ["", "..", "20261201T052203Z", "20261201T052203Z-9c4abe/..", "x"])
def test_snapshot_id_of_another_form_is_refused(name: str) -> None:
    """No id leads out of the job's folder."""
    with pytest.raises(ValueError, match="characters that names cannot have"):
        manifest.decode(_changed(snapshot=name))


def test_new_ids_sort_by_time() -> None:
    """Names of snapshots are in the order in which they were made."""
    made = [manifest.new_snapshot_id(_NOON + timedelta(seconds=99 * n)) for n in range(50)]
    assert sorted(made) == made


def test_new_ids_of_one_instant_differ() -> None:
    """Two hosts need not talk to each other to choose different ones."""
    assert len({manifest.new_snapshot_id(_NOON) for _ in range(50)}) == 50


def test_new_id_is_of_utc_and_can_be_read_back() -> None:
    """A host's time zone does not show."""
    made = manifest.new_snapshot_id(_NOON.astimezone(timezone(timedelta(hours=-8))))
    assert made.startswith("20261201T120000Z-")
    described = snapshots.manifest(snapshot=made)
    assert manifest.decode(manifest.encode(described)) == described


@pytest.mark.parametrize("seconds", [-3600, 0, 5])
def test_id_sorts_behind_the_snapshot_before(seconds: int) -> None:
    """Whatever the clock of this host says: the newest snapshot is the one to go on from."""
    before = manifest.new_snapshot_id(_NOON)
    for _ in range(20):
        after = manifest.new_snapshot_id(_NOON + timedelta(seconds=seconds), after=before)
        assert manifest.SNAPSHOT_ID.fullmatch(after)
        assert after > before
        before = after
