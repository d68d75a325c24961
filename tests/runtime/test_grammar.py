"""Command lines of `docker run` and `podman run` are read as the engines read them."""

import pytest

from spotrun.images.errors import UsageError
from spotrun.runtime import grammar


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
    words = "-itd --name a --name=b --rm --rm=false -eX".split()
    assert grammar.value(words, "--name") == "b"
    assert grammar.flag(words, "--detach")
    assert not grammar.flag(words, "--rm")
    assert grammar.value(words, "--env") == "X"


def test_options_of_the_first_run_do_not_last() -> None:
    """Name, terminal, environment and files of the first host are left out of a restore."""
    words = "-d --name j --env-file f -e A --shm-size 1g -v/a:/b --cidfile c --rm".split()
    kept = [word for option in grammar.lasting(words) for word in option.words]
    assert kept == ["--shm-size=1g", "--volume=/a:/b", "--rm"]
