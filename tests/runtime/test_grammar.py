"""Command lines of `docker run` and `podman run` are read as the engines read them."""

import pytest

from spotrun.images.errors import UsageError
from spotrun.runtime import grammar
from tests.runtime.command_lines import LINES, words


@pytest.mark.parametrize(
    ("line", "options", "command"),
    [
        ("img", "", ""),
        ("-it img sh", "-it", "sh"),
        ("-e A=1 --rm img sh -c hi --rm -e", "-e A=1 --rm", "sh -c hi --rm -e"),
        ("-eA=1 img", "-eA=1", ""),
        ("-itv /a:/b img x", "-itv /a:/b", "x"),
        ("-p80:80 --name=x img", "-p80:80 --name=x", ""),
        ("--name x --gpus all img python t.py", "--name x --gpus all", "python t.py"),
        ("-d=false --init=true img", "-d=false --init=true", ""),
        ("--rm -- img --flag", "--rm", "--flag"),
        ("-h host img", "-h host", ""),
    ],
)
def test_image_is_found_behind_the_options(line: str, options: str, command: str) -> None:
    """Everything before the image is an option, everything behind it the container's."""
    spec = grammar.split(line.split())
    assert (spec.options, spec.image, spec.command) == (
        tuple(options.split()),
        "img",
        tuple(command.split()),
    )


@pytest.mark.parametrize("line", ["", "--rm", "--rm --", "-v"])
def test_command_line_without_an_image_is_refused(line: str) -> None:
    """A missing image or value is a usage error."""
    with pytest.raises(UsageError):
        grammar.split(line.split())


def test_flags_and_values_are_read_in_every_form() -> None:
    """The last of several values holds; a flag can be taken back."""
    given = "-itd --name a --name=b --rm --rm=false -eX".split()
    assert grammar.value(given, "--name") == "b"
    assert grammar.flag(given, "--detach")
    assert not grammar.flag(given, "--rm")
    assert grammar.value(given, "--env") == "X"


@pytest.mark.parametrize("line", LINES)
def test_line_of_a_manual_is_parted_at_its_image(line: str) -> None:
    """Whatever stands before it is an option, whatever stands behind it is the command."""
    given, at = words(line, "/home/user")
    spec = grammar.split(given)
    assert spec.image == given[at]
    assert spec.options == tuple(word for word in given[:at] if word != "--")
    assert spec.command == tuple(given[at + 1 :])


def test_enough_lines_are_tried() -> None:
    """None is there twice."""
    assert len(set(LINES)) == len(LINES) > 60


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--net=a --dns-opt b", "--network=a --dns-option=b"),
        ("-e=A=1 -eA=1 -e A=1", "--env=A=1 --env=A=1 --env=A=1"),
        ("-e= -itw/x", "--env== --interactive --tty --workdir=/x"),
        ("-dit=false", "--detach --interactive --tty=false"),
        ("--entrypoint= --future=1 --other 2", "--entrypoint= --future=1 --other=2"),
        ("-X 1 -Y2", "-X 1 -Y 2"),
        ("--rm --help", "--rm --help"),
        ("--name --help", "--name=--help"),
    ],
)
def test_options_have_their_long_names(line: str, expected: str) -> None:
    """Also those that are hidden, and those that nobody knows."""
    found = [word for option in grammar.options(line.split()) for word in option.words]
    assert found == expected.split()


def test_letters_and_hidden_names_lead_to_options() -> None:
    """The tables belong together."""
    assert {*grammar.SHORT.values(), *grammar.ALIASES.values()} <= grammar.KNOWN.keys()
    assert not grammar.ALIASES.keys() & grammar.KNOWN.keys()
