"""A member comes into somebody else's JSON document and goes again; all other bytes stay."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.runtime.jsontext import with_member, without_member

_KEYS = ("runtimes", "spotrun")
_VALUE = {"path": "/shim"}
_NAMES = st.text(max_size=4)
_VALUES = st.recursive(
    st.integers() | _NAMES,
    lambda it: st.lists(it, max_size=3) | st.dictionaries(_NAMES, it, max_size=3),
    max_leaves=6,
)
_DOCUMENTS = st.dictionaries(_NAMES, _VALUES, max_size=3)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "runtimes": {\n    "spotrun": {\n      "path": "/shim"\n    }\n  }\n}'),
        ('{"a": 1}', '{"a": 1, "runtimes": {"spotrun": {"path": "/shim"}}}'),
        (
            '{\n\t"runtimes": {\n\t\t"nv": {"path": "n"}\n\t},\n\t"a": 1\n}\n',
            (
                '{\n\t"runtimes": {\n\t\t"nv": {"path": "n"},\n\t\t"spotrun": {\n\t\t\t'
                '"path": "/shim"\n\t\t}\n\t},\n\t"a": 1\n}\n'
            ),
        ),
        (
            '{\r\n    "a": 1\r\n}',
            (
                '{\r\n    "a": 1,\r\n    "runtimes": {\r\n        "spotrun": {\r\n            '
                '"path": "/shim"\r\n        }\r\n    }\r\n}'
            ),
        ),
        ('{"runtimes": null, "a": 1}', '{"runtimes": {"spotrun": {"path": "/shim"}}, "a": 1}'),
        ('{"runtimes": {"spotrun": {}}}', '{"runtimes": {"spotrun": {"path": "/shim"}}}'),
    ],
    ids=["empty", "on one line", "tabs", "Windows", "null", "replaced"],
)
def test_member_is_written_in_the_style_of_the_document(before: str, after: str) -> None:
    """Its indentation, its line ends, or all on one line."""
    assert with_member(before, _KEYS, _VALUE) == after


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_document_is_begun_where_there_is_none(nothing: str) -> None:
    """It ends with a newline."""
    made = with_member(nothing, _KEYS, _VALUE)
    assert json.loads(made) == {"runtimes": {"spotrun": _VALUE}}
    assert made.endswith("}\n")


@given(_DOCUMENTS, st.sampled_from([None, 1, 2, "\t"]))
def test_document_with_a_member_means_the_same_but_for_it(
    document: dict[str, object], indent: int | str | None
) -> None:
    """And so it does when the member has gone again."""
    document.pop("runtimes", None)
    before = json.dumps(document, indent=indent)
    after = with_member(before, _KEYS, _VALUE)
    assert json.loads(after) == {**document, "runtimes": {"spotrun": _VALUE}}
    assert json.loads(without_member(after, _KEYS)) == document
    if document:
        assert without_member(after, _KEYS) == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"runtimes": {"spotrun": 1, "b": 2}}', '{"runtimes": {"b": 2}}'),
        ('{"runtimes": {"a": 1, "spotrun": 2, "b": 3}}', '{"runtimes": {"a": 1, "b": 3}}'),
        ('{"a": 1,\n "runtimes": {"spotrun": 2}}', '{"a": 1}'),
        ('{ "runtimes": {"spotrun": 2} }', "{}"),
        ('{"runtimes": {"b": 2}}', '{"runtimes": {"b": 2}}'),
        ('{"runtimes": "spotrun"}', '{"runtimes": "spotrun"}'),
    ],
)
def test_member_goes_with_its_comma(before: str, after: str) -> None:
    """And with the object that would be left empty; what is not there does not go."""
    assert without_member(before, _KEYS) == after
