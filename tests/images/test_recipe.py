"""Recipes are short, exact, and refused when they make no sense."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.images import recipe
from spotrun.images.recipe import ZEROS, decode, encode, extents, place, triples
from spotrun.images.seal import Broken

_SAME = {number: number for number in range(9)}


def test_places_that_follow_each_other_are_joined() -> None:
    """Zeros too; a chunk of another pack, or another order, begins a new extent."""
    places = [place(2, 5), place(2, 6), place(2, 7), place(3, 8), -10, -20, place(3, 9)]
    assert extents(places, {2: 0, 3: 1}) == (0, 5, 3, 1, 8, 1, ZEROS, 0, 30, 1, 9, 1)
    assert extents([place(2, 6), place(2, 5), place(2, 5)], _SAME) == (2, 6, 1, 2, 5, 1, 2, 5, 1)
    assert extents([], {}) == ()


_QUICK = settings(max_examples=50, deadline=None, database=None)


@_QUICK
@given(
    places=st.lists(
        st.one_of(
            st.integers(-(2**40), -1),
            st.builds(place, st.integers(0, 8), st.integers(0, 2**32 - 1)),
            st.builds(place, st.integers(0, 1), st.integers(0, 3)),
        )
    )
)
def test_extents_say_the_same_as_the_places(places: list[int]) -> None:
    """Chunk by chunk; zeros byte by byte."""
    found: list[int] = []
    for pack, first, count in triples(extents(places, _SAME)):
        if pack == ZEROS:
            found.append(-count)
        else:
            found += [place(pack, first + at) for at in range(count)]
    expected: list[int] = []
    for it in places:
        if it < 0 and expected and expected[-1] < 0:
            expected[-1] += it
        else:
            expected.append(it)
    assert found == expected


def test_pack_of_a_place_is_told() -> None:
    """Also of the last place there can be."""
    assert recipe.pack_of(place(7, 2**32 - 1)) == 7


@_QUICK
@given(
    files=st.dictionaries(
        st.text(), st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 3)), max_size=5
    )
)
def test_recipe_comes_back(files: dict[str, list[tuple[int, int, int]]]) -> None:
    """With every path there can be."""
    given_files = {path: tuple(sum(found, ())) for path, found in files.items()}
    assert decode(encode(given_files)) == given_files


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xc1",
        encode({"a": (0, 0, 1)})[:-1],
        encode({"a": (0, 0, 1)}) + b"\0",
        msgspec.msgpack.encode([1, 2, 3]),
        msgspec.msgpack.encode({"a": "b"}),
        msgspec.msgpack.encode({"a": [0, 0, 1.5]}),
        msgspec.msgpack.encode({1: [0, 0, 1]}),
        b"\x81\xa1\xff\x90",
    ],
)
def test_recipe_that_makes_no_sense_is_broken(raw: bytes) -> None:
    """Whatever is wrong with it."""
    with pytest.raises(Broken, match=r"^its recipe makes no sense: "):
        decode(raw)


@pytest.mark.parametrize("found", [(1,), (0, 0, 1, 0), (0, 0, 0), (0, 0, -1), (ZEROS, 0, -5)])
def test_extent_that_makes_no_sense_is_broken(found: tuple[int, ...]) -> None:
    """It has three numbers, and is not empty."""
    with pytest.raises(Broken, match="an extent has three numbers, the last positive"):
        triples(found)
