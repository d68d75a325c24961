"""Pages, man pages and completions say what `--help` says."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spotrun.cli import reference
from spotrun.cli.group import HIDDEN, VERBS

_PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_page_has_every_verb_for_users() -> None:
    """With its whole help; some are for spotrun itself."""
    page = reference.page()
    for verb in VERBS:
        assert (f"\n## spotrun {verb}\n" in page) == (verb not in HIDDEN)
    assert "\n### spotrun key rotate\n" in page
    assert "any other" in page


def test_page_is_checked_and_written(tmp_path: Path) -> None:
    """What is not as it should be is named, with what to do."""
    page = tmp_path / "cli.md"
    wrong = f"{page} is not what --help says: run `make docs`"
    assert reference.main(["--check", str(page)]) == wrong
    assert reference.main([str(page)]) is None
    assert reference.main(["--check", str(page)]) is None
    page.write_text(page.read_text() + "more")
    assert reference.main(["--check", str(page)]) == wrong


def test_man_page_has_the_parts_that_man_pages_have() -> None:
    """Each verb has one; what roff would take for its own is escaped."""
    pages = reference.man_pages()
    assert {"spotrun.1", "spotrun-run.1", "spotrun-key-rotate.1"} <= pages.keys()
    assert "spotrun-peer.1" not in pages
    page = pages["spotrun-prune.1"].splitlines()
    assert page[0].startswith('.TH "SPOTRUN-PRUNE" "1" "" "spotrun ')
    assert page[1:3] == [".SH NAME", f"spotrun\\-prune \\- {VERBS['prune']}"]
    assert page[page.index(".SH SYNOPSIS") + 1] == ".B spotrun prune [OPTIONS] [JOB]"
    assert page[page.index(".SH OPTIONS") + 1 :][:2] == [".TP", ".B \\-\\-keep\\-last N"]
    for text in pages.values():
        assert not [
            it for it in text.splitlines() if it.startswith((".", "'")) and it[1:2].isspace()
        ]


def test_lines_that_click_keeps_are_kept() -> None:
    """A table of the help is one of the man page."""
    lines = reference.man_pages()["spotrun.1"].splitlines()
    at = lines.index("Exit codes:")
    assert lines[at - 1] == ".nf"
    assert lines[at + 1].startswith("  125 ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_asks_spotrun(shell: str) -> None:
    """By the variable that makes it answer a shell."""
    assert f"_SPOTRUN_COMPLETE={shell}_complete" in reference.completion(shell)


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_bash_completes_verbs_and_options() -> None:
    """Through the file that is installed."""
    script = f"""
    PATH={Path(sys.executable).parent}:$PATH
    {reference.completion("bash")}
    complete_words() {{
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _spotrun_completion spotrun
        echo "${{COMPREPLY[@]}}"
    }}
    complete_words spotrun chec
    complete_words spotrun key r
    complete_words spotrun prune --keep-w
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "checkpoint",
        "remove rotate",
        "--keep-weekly --keep-within",
    ]
