"""What the store has is found; what has not arrived is forgotten."""

from random import Random

import pytest

from spotrun.images.known import Known
from spotrun.images.pack import Pack, PackRef, PackWriter
from spotrun.images.recipe import place
from spotrun.images.seal import Plain
from tests.fakes.stores import STORE

_SEAL = Plain(STORE)
_CHUNKS = [Random(seed).randbytes(1000) for seed in range(10)]
_NAMES = [_SEAL.name(chunk) for chunk in _CHUNKS]
_REF = PackRef("0" * 64, 100, 50)


def _pack(*chunks: bytes) -> Pack:
    writer = PackWriter(_SEAL)
    for chunk in chunks:
        writer.add([(_SEAL.name(chunk), len(chunk))], chunk, 1)
    ref, pieces = writer.finish()
    return Pack(_SEAL, ref, b"".join(pieces)[-ref.tail :])


def test_chunks_of_a_pack_are_found_at_their_places() -> None:
    """Counted through its frames; what no pack has is not found."""
    known, pack = Known(), _pack(*_CHUNKS[:3])
    known.learn(_pack(_CHUNKS[5]))
    known.learn(pack)
    assert [known.find(name) for name in _NAMES[:4]] == [
        place(1, 0),
        place(1, 1),
        place(1, 2),
        None,
    ]
    assert known.packs[1] == pack.ref


def test_first_pack_that_has_a_chunk_is_used() -> None:
    """So snapshots of a job stay with the packs they have."""
    known = Known()
    known.learn(_pack(_CHUNKS[0]))
    known.learn(_pack(_CHUNKS[1], _CHUNKS[0]))
    assert known.find(_NAMES[0]) == place(0, 0)


@pytest.mark.parametrize(("used", "found"), [(None, True), (1999, False), (2000, True), (0, False)])
def test_pack_that_is_hardly_used_is_not_used_again(used: int | None, *, found: bool) -> None:
    """So that it can go one day; one of no snapshot is judged when it has one."""
    known = Known()
    known.learn(_pack(*_CHUNKS), used)
    assert (known.find(_NAMES[0]) is not None) is found


def test_first_claim_of_a_chunk_holds() -> None:
    """Two workers that meet the same chunk store it once."""
    known = Known()
    mine, yours = place(known.reserve(), 0), place(known.reserve(), 0)
    assert known.claim(_NAMES[0], mine) == mine
    assert known.claim(_NAMES[0], yours) == mine
    assert known.find(_NAMES[0]) == mine


def test_arrival_is_told() -> None:
    """To whoever notes what has been stored."""
    told: list[PackRef] = []
    known = Known(told.append)
    known.arrived(known.reserve(), _REF)
    assert told == [_REF]
    assert known.packs == {0: _REF}


def test_chunks_of_packs_that_did_not_arrive_are_forgotten() -> None:
    """They are stored again by who needs them; the others are not."""
    known = Known()
    known.learn(_pack(_CHUNKS[0]))
    lost, there = known.reserve(), known.reserve()
    known.claim(_NAMES[1], place(lost, 0))
    known.claim(_NAMES[2], place(there, 0))
    known.arrived(there, _REF)
    known.forget_lost()
    assert [known.find(name) for name in _NAMES[:3]] == [place(0, 0), None, place(there, 0)]
