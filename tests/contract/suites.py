"""How the suites of behaviours are found."""

from collections.abc import Callable
from inspect import isfunction
from re import compile as pattern
from types import ModuleType
from typing import Any, Final

_SENTENCE: Final = pattern(r"[a-z]+_[a-z]+_[a-z]+_")


def behaviours(suite: ModuleType) -> list[Callable[..., Any]]:
    """Return the functions that a suite consists of: those whose name is a sentence."""
    made = [it for it in vars(suite).values() if isfunction(it)]
    return [it for it in made if it.__module__ == suite.__name__ and _SENTENCE.match(it.__name__)]
