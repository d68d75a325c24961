"""What is made from `--help`: the page `docs/cli.md`, the man pages, and the shells' completions.

`python -m spotrun.cli.reference docs/cli.md` writes the page; with --check it only tells whether
the page is as it should be.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from spotrun import __version__
from spotrun.cli.group import VERBS, spotrun

_WIDTH: Final = 100
_NAME: Final = "spotrun"
_HEAD: Final = """\
# Command line

<!-- made by `make docs` from --help -->

What `--help` says. [docker.md](docker.md) tells which of these stands for which command of docker.
"""


@dataclass(frozen=True, slots=True)
class Verb:
    """A command with all that its `--help` says."""

    words: tuple[str, ...]
    """As it is called, without `spotrun`."""
    command: click.Command
    context: click.Context

    @property
    def name(self) -> str:
        """As it is called."""
        return " ".join((_NAME, *self.words))


def verbs() -> list[Verb]:
    """Return the command itself, then each verb, in the order of `--help`."""
    return list(_walk((), spotrun, None))


def _walk(
    words: tuple[str, ...], command: click.Command, parent: click.Context | None
) -> Iterator[Verb]:
    name = words[-1] if words else _NAME
    context = click.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH)
    yield Verb(words, command, context)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found:
                yield from _walk((*words, inner), found, context)


def page() -> str:
    """Return docs/cli.md."""
    parts = [_HEAD]
    for verb in verbs():
        text = verb.command.get_help(verb.context)
        level = "##" if len(verb.words) < 2 else "###"  # noqa: PLR2004 # verbs of a verb
        parts.append(f"{level} {verb.name}\n\n```\n{text}\n```\n")
    return "\n".join(parts)


def man_pages() -> dict[str, str]:
    """Return each verb's page by its file's name, like `spotrun-run.1`."""
    return {f"{'-'.join((_NAME, *verb.words))}.1": _man_page(verb) for verb in verbs()}


def completion(shell: str) -> str:
    """Return what makes a shell complete command lines of spotrun."""
    found = get_completion_class(shell)
    if found is None:
        raise ValueError(shell)
    return found(spotrun, {}, _NAME, f"_{_NAME.upper()}_COMPLETE").source()


@dataclass(slots=True)
class _Section:
    title: str
    texts: list[str] = field(default_factory=list)
    rows: list[tuple[str, str]] = field(default_factory=list)


class _Parts(click.HelpFormatter):
    """Keeps the parts of a help text apart instead of writing them."""

    def __init__(self) -> None:
        super().__init__()
        self.usage = ""
        self.sections = [_Section("DESCRIPTION")]

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:  # noqa: ARG002 # click's signature
        """Keep the synopsis."""
        self.usage = f"{prog} {args}"

    def write_heading(self, heading: str) -> None:
        """Begin a section."""
        self.sections.append(_Section(heading.upper()))

    def write_text(self, text: str) -> None:
        """Keep paragraphs."""
        self.sections[-1].texts.append(text)

    def write_dl(
        self,
        rows: Iterable[tuple[str, str]],
        col_max: int = 30,  # noqa: ARG002 # click's signature
        col_spacing: int = 2,  # noqa: ARG002 # click's signature
    ) -> None:
        """Keep a list of definitions."""
        self.sections[-1].rows.extend(rows)


def _man_page(verb: Verb) -> str:
    """Write man(7) macros."""
    parts = _Parts()
    verb.command.format_help(verb.context, parts)
    title, short = "-".join((_NAME, *verb.words)), verb.command.get_short_help_str(_WIDTH)
    if len(verb.words) == 1:
        short = VERBS[verb.words[0]]
    lines = [
        f'.TH "{title.upper()}" "1" "" "spotrun {__version__}" "spotrun"',
        ".SH NAME",
        f"{_roff(title)} \\- {_roff(short)}",
        ".SH SYNOPSIS",
        f".B {_roff(parts.usage)}",
    ]
    for section in parts.sections:
        lines += [f".SH {section.title}"] if section.texts or section.rows else []
        lines += [line for text in section.texts for line in _paragraphs(text)]
        for term, what in section.rows:
            lines += [".TP", f".B {_roff(term)}", _roff(what)]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs; one that click is told not to wrap stays as it is."""
    for paragraph in text.split("\n\n"):
        lines = paragraph.strip("\n").splitlines()
        if lines[:1] == ["\b"]:
            yield from (".PP", ".nf", *map(_roff, lines[1:]), ".fi")
        else:
            yield from (".PP", _roff(" ".join(line.strip() for line in lines)))


def _roff(text: str) -> str:
    """Escape what roff would take for its own."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def main(words: Sequence[str]) -> str | None:
    """Write the page, or return what is wrong with it."""
    check, place = "--check" in words, Path(words[-1])
    if not check:
        place.write_text(page())
    elif not place.exists() or place.read_text() != page():
        return f"{place} is not what --help says: run `make docs`"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
