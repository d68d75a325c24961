"""The tree of errors is drawn, documented and complete."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from string import Formatter

import click
import pytest

from spotrun.cli.group import spotrun
from spotrun.images import errors
from spotrun.images.errors import ExitCode, SpotrunError

_DRAWN = re.compile(r"^(?P<lead>    [|` -]*)(?P<name>[A-Z]\w+)", re.MULTILINE)


def _tree(root: type[SpotrunError] = SpotrunError, depth: int = 0) -> Iterator[tuple[str, int]]:
    """Yield names and depths of all classes, each before its children."""
    yield root.__name__, depth
    for child in root.__subclasses__():
        yield from _tree(child, depth + 1)


def _classes(root: type[SpotrunError] = SpotrunError) -> Iterator[type[SpotrunError]]:
    yield root
    for child in root.__subclasses__():
        yield from _classes(child)


_ALL = pytest.mark.parametrize("error", list(_classes()), ids=lambda it: it.__name__)


def test_drawn_tree_is_that_of_the_classes() -> None:
    """Every class stands in the module's head, below its parent and in the order of the source."""
    head = (errors.__doc__ or "").partition("A message template")[0]
    drawn = [(it["name"], (len(it["lead"]) - 4) // 3) for it in _DRAWN.finditer(head)]
    assert drawn == list(_tree())


def test_all_errors_are_of_this_module() -> None:
    """There is one place to look for what spotrun may say."""
    import spotrun.cli.main
    import spotrun.runtime.settle  # noqa: F401 # it imports all of runtime

    assert {error.__module__ for error in _classes()} == {"spotrun.images.errors"}


@_ALL
def test_error_is_explained(error: type[SpotrunError]) -> None:
    """Each class has a docstring of its own."""
    assert "__doc__" in vars(error)
    assert (error.__doc__ or "").endswith(".")


@_ALL
def test_error_says_all_it_was_given(error: type[SpotrunError]) -> None:
    """The template takes the fields, which stay to be read; braces in a value do no harm."""
    names = [name for _, name, _, _ in Formatter().parse(error.template) if name]
    made = error(log=Path("/raw.log"), **{name: f"{{{name}}}" for name in names})
    assert all(f"{{{name}}}" in str(made) for name in names)
    assert made.fields == {name: f"{{{name}}}" for name in names}
    assert (made.code, made.log) == (error.__name__, Path("/raw.log"))


@_ALL
def test_error_exits_with_a_code_of_spotruns_own(error: type[SpotrunError]) -> None:
    """It is told from what a container ends with."""
    expected = ExitCode.INTERRUPTED if error is errors.Interrupted else ExitCode.OWN_ERROR
    assert error.exit_code is expected


def test_exit_codes_differ() -> None:
    """No code has two names."""
    codes = sorted(code.value for code in ExitCode.__members__.values())
    assert all(one < other for one, other in pairwise(codes))


@pytest.mark.parametrize("code", [code for code in ExitCode if code is not ExitCode.OK])
def test_exit_code_is_documented_in_the_help_text(code: ExitCode) -> None:
    """`spotrun --help` has a line for it."""
    shown = spotrun.get_help(click.Context(spotrun, info_name="spotrun"))
    assert re.search(rf"^\s+{code.value}\s+\w", shown, re.MULTILINE), shown
