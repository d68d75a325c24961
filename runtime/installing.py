"""What `install` changes on a host, so that `uninstall` takes it back exactly.

Before any file is touched a record is written: what each file was, and the hashes of what goes
there. A file that is still as it was written becomes what it was. In one that somebody has changed
since, only the member that is spotrun's goes. So each may be cut off anywhere and called again.
"""

import difflib
import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from spotrun.images.durable import sync_directory, write_atomic
from spotrun.images.errors import Refused
from spotrun.runtime import jsontext
from spotrun.runtime.paths import Paths

_NEW_FILE: Final = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of spotrun's own."""

    path: Path
    content: bytes
    mode: int = _NEW_FILE
    generated: bool = False
    """Whether nobody wants to read what changes in it."""
    always_ours: bool = False
    """Whether spotrun has written it also where no record says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a JSON document that belongs to others."""

    path: Path
    keys: tuple[str, ...]
    value: Mapping[str, object]


class Action(StrEnum):
    """What happens to a file."""

    MAKE = "make"
    CHANGE = "change"
    REMOVE = "remove"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happens, or would happen, to one file."""

    path: str
    action: Action
    diff: str = ""
    """Unified; empty for what is generated."""
    note: str = ""
    """Why it is not simply undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A file that is to have other content; None: no file."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int = _NEW_FILE
    generated: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the record says of one file."""

    before: bytes | None
    wrote: tuple[str, ...]
    """Hashes of what it may have from us: while it is being replaced, two."""
    keys: tuple[str, ...] = ()
    """The member that is ours; none: the whole file."""
    generated: bool = False
    folders: tuple[str, ...] = ()
    """Those made for it, outermost first."""


Record = dict[str, Entry]


@dataclass(slots=True)
class Plan:
    """What is to be done, and what the record says before and after it."""

    paths: Paths
    edits: list[Edit] = field(default_factory=list)
    left: list[Change] = field(default_factory=list)
    """Files that were to be taken back and cannot be."""
    old: Record = field(default_factory=dict)
    new: Record = field(default_factory=dict)

    @property
    def changes(self) -> list[Change]:
        """All that happens, by path."""
        return sorted([*map(_change, self.edits), *self.left], key=lambda it: it.path)

    def concerns(self, path: Path) -> bool:
        """Tell whether a file is among those that change."""
        return any(edit.path == path.resolve() for edit in self.edits)

    def after(self, path: Path) -> bytes | None:
        """Return what a file will have."""
        edit = next((it for it in self.edits if it.path == path.resolve()), None)
        return edit.after if edit else _read(path)

    def apply(self) -> None:
        """Do it."""
        both = {**self.old, **self.new}
        for path in self.old.keys() & self.new.keys():
            wrote = (*self.old[path].wrote, *self.new[path].wrote)
            both[path] = replace(self.new[path], wrote=tuple(dict.fromkeys(wrote)))
        _save(self.paths, both)
        for edit in self.edits:
            _write(edit)
        gone = self.old.keys() - self.new.keys()
        for path in gone:
            _remove_folders(self.old[path].folders)
        _save(self.paths, self.new)


def installation(paths: Paths, wanted: Iterable[File | Member]) -> Plan:
    """Plan for a host to have these files, and none that an earlier version wanted."""
    plan = Plan(paths, old=_load(paths))
    for it in wanted:
        path = it.path.resolve()
        old = plan.old.get(str(path))
        edit, entry = _own(it, path, old) if isinstance(it, File) else _shared(it, path, old)
        if entry:
            plan.new[str(path)] = entry
        if edit.before != edit.after:
            plan.edits.append(edit)
    _take_back(plan, [path for path in plan.old if path not in plan.new])
    return plan


def removal(paths: Paths) -> Plan:
    """Plan to take back all that the record names."""
    plan = Plan(paths, old=_load(paths))
    _take_back(plan, list(reversed(plan.old)))
    return plan


def _own(file: File, path: Path, old: Entry | None) -> tuple[Edit, Entry]:
    now = _read(path)
    strange = now if now != file.content and not file.always_ours else None
    entry = Entry(
        before=old.before if old else strange,
        wrote=(_hash(file.content),),
        generated=file.generated,
        folders=old.folders if old else _missing_folders(path),
    )
    edit = Edit(path=path, before=now, after=file.content, mode=file.mode, generated=file.generated)
    return edit, entry


def _shared(member: Member, path: Path, old: Entry | None) -> tuple[Edit, Entry | None]:
    """Set the member; if what is there is ours, in what was there before."""
    now = _read(path)
    ours = old is not None and now is not None and _hash(now) in old.wrote
    base = old.before if old and ours else now
    found = _value(path, base, member.keys)
    if isinstance(found, dict) and found.items() >= member.value.items():
        return Edit(path=path, before=now, after=now), old
    if found is not None:
        what = f"{'.'.join(member.keys)} is {json.dumps(found)}"
        raise Refused(message=f"{path} has another one already: {what}; remove it first")
    after = jsontext.with_member((base or b"").decode(), member.keys, dict(member.value)).encode()
    folders = old.folders if old and ours else _missing_folders(path)
    entry = Entry(before=base, wrote=(_hash(after),), keys=member.keys, folders=folders)
    return Edit(path=path, before=now, after=after), entry


def _take_back(plan: Plan, names: Sequence[str]) -> None:
    for name in names:
        entry, path, now = plan.old[name], Path(name), _read(Path(name))
        if now in {None, entry.before}:
            continue
        edit = Edit(path=path, before=now, after=entry.before, generated=entry.generated)
        if now is not None and _hash(now) not in entry.wrote:
            rest = _without(path, now, entry.keys)
            note = f"somebody has changed it: only {'.'.join(entry.keys)} goes"
            edit = replace(edit, after=rest, note=note)
        if edit.after != now:
            plan.edits.append(edit)
        elif not entry.keys:
            note = "somebody has changed it: remove it yourself"
            plan.left.append(Change(path=name, action=Action.LEAVE, note=note))


def _without(path: Path, now: bytes, keys: tuple[str, ...]) -> bytes:
    if not keys or _value(path, now, keys) is None:
        return now
    return jsontext.without_member(now.decode(), keys).encode()


def _value(path: Path, raw: bytes | None, keys: Sequence[str]) -> Any:  # noqa: ANN401 # any JSON
    """Return a member of a document, or None; Refused: it is no JSON object."""
    if raw is None or not raw.strip():
        return None
    try:
        found: Any = json.loads(raw)
    except ValueError as error:
        raise Refused(message=f"{path} is not valid JSON: {error}") from error
    for at, key in enumerate(keys):
        if found is None and at:
            return None
        if not isinstance(found, dict):
            raise Refused(message=f"{path}: {'.'.join(keys[:at]) or 'it'} is not a JSON object")
        found = found.get(key)
    return found


def _change(edit: Edit) -> Change:
    action = Action.CHANGE
    if edit.before is None or edit.after is None:
        action = Action.MAKE if edit.before is None else Action.REMOVE
    diff = "" if edit.generated else _diff(edit)
    return Change(path=str(edit.path), action=action, diff=diff, note=edit.note)


def _diff(edit: Edit) -> str:
    before, after = ((it or b"").decode(errors="replace") for it in (edit.before, edit.after))
    old, new = ("/dev/null" if it is None else str(edit.path) for it in (edit.before, edit.after))
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), old, new, lineterm="")
    return "\n".join(lines)


def _write(edit: Edit) -> None:
    """Give a file its new content; owner and permissions of one that is there stay."""
    if edit.after is None:
        edit.path.unlink(missing_ok=True)
        sync_directory(edit.path.parent)
        return
    edit.path.parent.mkdir(parents=True, exist_ok=True)
    was = edit.path.stat() if edit.path.exists() else None
    write_atomic(edit.path, edit.after)
    if was:
        os.chown(edit.path, was.st_uid, was.st_gid)
    edit.path.chmod(stat.S_IMODE(was.st_mode) if was else edit.mode)


def _missing_folders(path: Path) -> tuple[str, ...]:
    missing = [str(folder) for folder in path.parents if not folder.exists()]
    return tuple(reversed(missing))


def _remove_folders(folders: Sequence[str]) -> None:
    for folder in reversed(folders):
        with suppress(OSError):  # others use it by now
            Path(folder).rmdir()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()


def _place(paths: Paths) -> Path:
    return paths.state / "installed.json"


def _load(paths: Paths) -> Record:
    raw = _read(_place(paths))
    return msgspec.json.decode(raw, type=Record) if raw else {}


def _save(paths: Paths, record: Record) -> None:
    if record:
        write_atomic(_place(paths), msgspec.json.encode(record))
    else:
        _place(paths).unlink(missing_ok=True)
