"""What an installation changes is recorded before it changes, and taken back exactly."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spotrun.images.durable import write_atomic
from spotrun.images.errors import Refused
from spotrun.runtime import installing
from spotrun.runtime.installing import Action, File, Member, Plan
from spotrun.runtime.paths import Paths

_KEYS = ("runtimes", "spotrun")
_VALUE = {"path": "/shim"}


class Etc:
    """A folder to install into, with the state folder beside it."""

    def __init__(self, folder: Path) -> None:
        """Make both."""
        self.folder = folder / "etc"
        self.folder.mkdir()
        self.paths = Paths(state=folder / "state", run=folder / "run", memory=folder / "memory")
        self.paths.prepare()
        self.wanted: list[File | Member] = [
            File(path=self.folder / "new" / "deep" / "own.conf", content=b"ours\n"),
            Member(path=self.folder / "daemon.json", keys=_KEYS, value=_VALUE),
        ]

    def install(self) -> Plan:
        """Install what is wanted."""
        return self._apply(installing.installation(self.paths, self.wanted))

    def uninstall(self) -> Plan:
        """Take it back."""
        return self._apply(installing.removal(self.paths))

    def write(self, text: str, name: str = "daemon.json") -> Path:
        """Write a file as its owner would."""
        path = self.folder / name
        path.write_text(text)
        return path

    def all(self) -> dict[str, bytes | None]:
        """Return all files and folders."""
        paths = sorted(self.folder.rglob("*"))
        return {str(it): it.read_bytes() if it.is_file() else None for it in paths}

    def _apply(self, plan: Plan) -> Plan:
        plan.apply()
        return plan


@pytest.fixture
def etc(tmp_path: Path) -> Etc:
    """Give an empty folder."""
    return Etc(tmp_path)


def _actions(plan: Plan) -> dict[str, Action]:
    return {Path(it.path).name: it.action for it in plan.changes}


@pytest.mark.parametrize("text", [None, "", "{}", '{"a": 1}\n', '{"runtimes": {"b": {}} }'])
def test_host_is_byte_by_byte_what_it_was(etc: Etc, text: str | None) -> None:
    """With the folders made, whatever the owner's file was like."""
    if text is not None:
        etc.write(text)
    before = etc.all()
    assert len(etc.install().changes) == 2
    assert etc.all() != before
    assert etc.install().changes == []
    etc.uninstall()
    assert etc.all() == before
    assert etc.uninstall().changes == []
    assert not list(etc.paths.state.glob("installed*"))


def test_owner_and_permissions_stay(etc: Etc) -> None:
    """Of a file that was there; one of spotrun's own can be read by all."""
    path = etc.write("{}")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 1234, 5678)
    before = path.stat()
    for step in (etc.install, etc.uninstall):
        step()
        now = path.stat()
        assert (now.st_mode, now.st_uid, now.st_gid) == (
            before.st_mode,
            before.st_uid,
            before.st_gid,
        )
        own = etc.folder / "new" / "deep" / "own.conf"
        assert not own.exists() or own.stat().st_mode & 0o777 == 0o644


def test_link_is_followed(etc: Etc) -> None:
    """The file that it names is changed; the link stays one."""
    path = etc.write("{}", "elsewhere.json")
    link = etc.folder / "daemon.json"
    link.symlink_to(path)
    etc.install()
    assert link.is_symlink()
    assert b"spotrun" in path.read_bytes()
    etc.uninstall()
    assert link.is_symlink()
    assert path.read_text() == "{}"


def test_diff_shows_the_lines_that_change(etc: Etc) -> None:
    """Unified, with the paths; what is generated is only named."""
    etc.write('{\n  "a": 1\n}\n')
    etc.wanted.append(File(path=etc.folder / "page.1", content=b"text", generated=True))
    plan = installing.installation(etc.paths, etc.wanted)
    shown = {Path(it.path).name: it for it in plan.changes}
    path = etc.folder / "daemon.json"
    assert shown["daemon.json"].diff.splitlines()[:5] == [
        f"--- {path}",
        f"+++ {path}",
        "@@ -1,3 +1,8 @@",
        " {",
        '-  "a": 1',
    ]
    assert shown["own.conf"].diff.startswith("--- /dev/null\n")
    assert (shown["page.1"].action, shown["page.1"].diff) == (Action.MAKE, "")


def test_what_was_at_the_place_of_an_own_file_comes_back(etc: Etc) -> None:
    """Unless it was spotrun's own already: the same, or always."""
    same, other, always = (etc.folder / name for name in ("same", "other", "always"))
    same.write_text("ours\n")
    other.write_text("theirs\n")
    always.write_text("an older one of ours\n")
    etc.wanted = [File(path=it, content=b"ours\n") for it in (same, other)]
    etc.wanted.append(File(path=always, content=b"ours\n", always_ours=True))
    assert _actions(etc.install()) == {"other": Action.CHANGE, "always": Action.CHANGE}
    etc.uninstall()
    assert (same.exists(), other.read_text(), always.exists()) == (False, "theirs\n", False)


def test_update_changes_what_is_ours_and_keeps_what_it_was(etc: Etc) -> None:
    """A new path of the runtime, a file with other content, and one that is not wanted any more."""
    etc.write('{"a": 1}')
    before = etc.all()
    etc.wanted.append(File(path=etc.folder / "old.1", content=b"old"))
    etc.install()
    etc.wanted = [
        File(path=etc.folder / "new" / "deep" / "own.conf", content=b"newer\n"),
        Member(path=etc.folder / "daemon.json", keys=_KEYS, value={"path": "/moved"}),
    ]
    assert _actions(etc.install()) == {
        "own.conf": Action.CHANGE,
        "daemon.json": Action.CHANGE,
        "old.1": Action.REMOVE,
    }
    text = '{"a": 1, "runtimes": {"spotrun": {"path": "/moved"}}}'
    assert (etc.folder / "daemon.json").read_text() == text
    etc.uninstall()
    assert etc.all() == before


def test_what_somebody_has_changed_since_is_not_undone(etc: Etc) -> None:
    """Of a shared file only our member goes; an own one is left, and so is one that was removed."""
    etc.write('{"a": 1}')
    etc.wanted.append(File(path=etc.folder / "third", content=b"ours"))
    etc.install()
    path = etc.write('{"a": 2, "runtimes": {"spotrun": {"path": "/shim"}, "b": {}}}')
    own = etc.write("mine\n", "new/deep/own.conf")
    (etc.folder / "third").unlink()
    plan = etc.uninstall()
    assert {Path(it.path).name: (it.action, it.note) for it in plan.changes} == {
        "daemon.json": (Action.CHANGE, "somebody has changed it: only runtimes.spotrun goes"),
        "own.conf": (Action.LEAVE, "somebody has changed it: remove it yourself"),
    }
    assert path.read_text() == '{"a": 2, "runtimes": {"b": {}}}'
    assert own.read_text() == "mine\n"


def test_member_that_somebody_took_out_comes_back_with_the_next_install(etc: Etc) -> None:
    """And what they wrote is what the file becomes again."""
    etc.write("{}")
    etc.install()
    path = etc.write('{"a": 1}')
    assert _actions(etc.install()) == {"daemon.json": Action.CHANGE}
    etc.uninstall()
    assert path.read_text() == '{"a": 1}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{,}", "is not valid JSON"),
        ("[]", "it is not a JSON object"),
        ('{"runtimes": []}', "runtimes is not a JSON object"),
        ('{"runtimes": {"spotrun": {"path": "/other"}}}', "has another one already"),
    ],
)
def test_document_that_does_not_fit_is_refused(etc: Etc, text: str, reason: str) -> None:
    """Nothing has been touched, not even the other files."""
    etc.write(text)
    before = etc.all()
    with pytest.raises(Refused, match=reason):
        etc.install()
    assert etc.all() == before
    assert not list(etc.paths.state.glob("installed*"))


def test_member_of_the_owners_own_making_is_no_ones_business(etc: Etc) -> None:
    """It says the same and more, so it is neither changed nor taken back."""
    text = '{"runtimes": {"spotrun": {"path": "/shim", "runtimeArgs": []}}}'
    path = etc.write(text)
    assert _actions(etc.install()) == {"own.conf": Action.MAKE}
    etc.uninstall()
    assert path.read_text() == text


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("then", [Etc.install, Etc.uninstall], ids=["install", "uninstall"])
@pytest.mark.parametrize("first", ["install", "update", "uninstall"])
def test_cut_off_anywhere_it_is_done_again(
    etc: Etc, monkeypatch: pytest.MonkeyPatch, first: str, then: Callable[[Etc], Plan], at: int
) -> None:
    """Every write of the first call may be the last, and the second call does all of its work."""
    etc.write('{"a": 1}')
    before = etc.all()
    if first != "install":
        etc.install()
    if first == "update":
        etc.wanted[0] = File(path=etc.folder / "new" / "deep" / "own.conf", content=b"newer\n")
    left = at

    def killed(*words: object, **more: object) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        write_atomic(*words, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(installing, "write_atomic", killed)
        with contextlib.suppress(KeyboardInterrupt):
            (etc.uninstall if first == "uninstall" else etc.install)()
    then(etc)
    if then is Etc.install:
        assert etc.install().changes == []
        etc.uninstall()
    assert etc.all() == before
