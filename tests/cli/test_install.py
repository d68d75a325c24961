"""`install` and `uninstall` tell what changes: a program in JSON, a person with diffs."""

import json
from pathlib import Path
from typing import Any

import pytest

from spotrun.cli import install, uninstall
from spotrun.images.process import Completed
from spotrun.runtime.registering import Site
from tests.cli.conftest import Cli
from tests.fakes.host import FakeHost
from tests.fakes.runner import ScriptedRunner

_GOLDEN = Path(__file__).parent / "golden"
_PROGRAMS = {"dockerd", "bash"}


@pytest.fixture(autouse=True)
def root(fake: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the command line work on a folder, where Docker has no daemon running."""
    taken = Completed(0, "configuration OK\n")

    class _Docker(ScriptedRunner):
        def _answer(self, argv: object) -> Completed:  # noqa: ARG002
            return taken

    site = Site(
        paths=fake.host.paths,
        runner=_Docker({}),
        clock=fake.host.clock,
        root=tmp_path,
        which=lambda program: program if program in _PROGRAMS else None,
    )
    for module in (install, uninstall):
        monkeypatch.setattr(module, "find_site", lambda *, dry_run: site)  # noqa: ARG005
    (tmp_path / "etc/docker").mkdir(parents=True)
    (tmp_path / "etc/docker/daemon.json").write_text('{\n  "log-level": "warn"\n}\n')
    return tmp_path


def _plain(document: Any, root: Path) -> Any:  # noqa: ANN401 # any JSON
    """Return an envelope as on a real host, with one of its many man pages."""
    plain = json.loads(json.dumps(document).replace(str(root), ""))
    changes = plain["data"]["changes"]
    pages = [it for it in changes if "/man1/spotrun-" in it["path"]]
    plain["data"]["changes"] = [
        it for it in changes if it not in pages and "state" not in it["path"]
    ]
    return plain


@pytest.mark.parametrize("words", ["install --dry-run", "install", "uninstall"])
def test_changes_are_as_in_the_golden_example(cli: Cli, root: Path, words: str) -> None:
    """Each with its path, what happens to it, the diff and a note."""
    if words == "uninstall":
        cli("install")
        text = (root / "etc/docker/daemon.json").read_text()
        (root / "etc/docker/daemon.json").write_text(text.replace("warn", "info"))
    said = cli(*words.split(), "--format", "json")
    golden = _GOLDEN / f"{words.replace(' --', '-')}.json"
    assert _plain(said.envelope, root) == json.loads(golden.read_bytes())
    assert said.status == 0


def test_person_sees_diffs_before_and_paths_after(cli: Cli, root: Path) -> None:
    """What is generated is only named; where nothing changes, that is said."""
    before = cli("install", "--dry-run")
    path = root / "etc/docker/daemon.json"
    lines = before.out.splitlines()
    at = lines.index(f"would change {path}")
    assert lines[at + 1 : at + 4] == [f"--- {path}", f"+++ {path}", "@@ -1,3 +1,8 @@"]
    page = root / "usr/local/share/man/man1/spotrun.1"
    assert lines[lines.index(f"would make {page}") - 1].startswith("would make ")
    assert before.err == f"spotrun: dockerd does not run; it reads {path} when it starts\n"
    after = cli("install")
    assert f"changed {path}" in after.out.splitlines()
    assert "@@" not in after.out
    assert (cli("install").out, cli("install").err) == ("", "spotrun: nothing to do\n")
    assert f"changed {path}" in cli("uninstall").out.splitlines()
