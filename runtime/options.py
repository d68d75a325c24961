"""What an engine is given for a user's options, and what the user is told about it.

A job keeps its options as the user gave them. What must be another one is replaced here, when the
job starts and whenever its container is made again; what rules a snapshot out is refused before
anything is started.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spotrun.images.errors import NotCapturable, UsageError
from spotrun.images.runspec import RunSpec
from spotrun.runtime import cdi, grammar
from spotrun.runtime.engine import Engine
from spotrun.runtime.grammar import Option

_REFUSED: Final = {
    "--pid=host": "it would be among the host's processes; run it without --pid=host",
    "--network=host": "it would have the host's own network, which a restore cannot take over;"
    " run it without --network=host, and publish its ports with -p",
    "--pod": "the other containers of its pod would not be saved with it; run it without --pod",
    "--rootfs": "its files belong to no image, which another host could have; import them as one",
    "--root": "only `podman --root` would find its container; run it without --root",
}
"""Options, with or without the first part of a value, and why such a job cannot be saved."""
_OVERLAY: Final = re.compile(r"[^:]+:[^:]+:(.*,)?O(,.*)?")
"""A volume whose changes go with the container, podman-run(1)."""
_OTHER_CONTAINER: Final = frozenset(("--volumes-from", "--link", "--requires"))
_LIKE_OURS: Final = frozenset(("runc", "crun", "io.containerd.runc.v2", "spotrun", "spotrun-oci"))
_FILE_LOGS: Final = frozenset(("json-file", "k8s-file"))
_SOURCE: Final = re.compile(r"((?:^|,)(?:source|src)=)(\.[^,]*)")


@dataclass(frozen=True, slots=True)
class Fitted:
    """Options as an engine is to have them."""

    options: tuple[Option, ...]
    notes: tuple[str, ...] = ()
    """What the user should know, a line each."""

    @property
    def words(self) -> list[str]:
        """For a command line."""
        return [word for option in self.options for word in option.words]


def refuse(job: str, words: Sequence[str]) -> None:
    """Raise NotCapturable for a job that an option keeps from ever going on elsewhere."""
    for option in grammar.options(words):
        kind = (option.value or "").partition(":")[0]
        reason = _REFUSED.get(f"{option.name}={kind}") or _REFUSED.get(option.name)
        if option.name == "--volume" and _OVERLAY.fullmatch(option.value or ""):
            reason = f"the overlay of {option.value} cannot be mounted again; leave out the O"
        if reason and option.on:
            raise NotCapturable(job=job, reason=reason)


def fit(engine: Engine, words: Sequence[str]) -> Fitted:
    """Return what the engine is to be given for a job's options."""
    given = grammar.options(words)
    parts = [_replaced(option, given, engine) for option in given]
    if grammar.value(words, "--log-driver") is None:
        parts.insert(0, _file_log(engine))
    notes = [note for part in parts for note in part.notes]
    notes += [note for option in given for note in _warnings(option, engine)]
    return Fitted(tuple(option for part in parts for option in part.options), tuple(notes))


def again(engine: Engine, words: Sequence[str]) -> list[str]:
    """Return what the engine is given when it makes the container another time."""
    lasting = tuple(option for option in fit(engine, words).options if grammar.lasts(option))
    return Fitted(lasting).words


def settled(spec: RunSpec, folder: Path) -> RunSpec:
    """Return the command line as it means the same in any folder, without files of labels."""
    given = grammar.options(spec.options)
    labels = [label for option in given for label in _labels(option, folder)]
    others = [_absolute(option, folder) for option in given if option.name != "--label-file"]
    fitted = Fitted((*labels, *others))
    return spec if [*fitted.options] == given else replace(spec, options=tuple(fitted.words))


def _replaced(option: Option, given: Sequence[Option], engine: Engine) -> Fitted:
    text = option.value or ""
    match option.name:
        case "--gpus":
            return Fitted(_devices(cdi.requested(text)))
        case "--ipc" if text == "host":
            return _own_ipc(given)
        case "--runtime":
            return _own_runtime(text, given)
        case "--log-driver" if text in _FILE_LOGS:
            return _file_log(engine)
        case _:
            return Fitted((option,))


def _devices(names: Sequence[str]) -> tuple[Option, ...]:
    return tuple(Option("--device", name) for name in names)


def _file_log(engine: Engine) -> Fitted:
    return Fitted((Option("--log-driver", engine.log_driver),))


def _own_ipc(given: Sequence[Option]) -> Fitted:
    """Give what `--ipc=host` is mostly there for: half of the memory as /dev/shm, like tmpfs(5)."""
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    sized = any(option.name == "--shm-size" for option in given)
    made = Fitted(
        (Option("--ipc", "private"), *([] if sized else [Option("--shm-size", str(half))]))
    )
    note = "the host's shared memory cannot be saved: --ipc=host has become " + " ".join(made.words)
    return replace(made, notes=(note,))


def _own_runtime(runtime: str, given: Sequence[Option]) -> Fitted:
    """Leave the OCI runtime to spotrun; from NVIDIA's, only the GPUs are wanted."""
    name = Path(runtime).name
    if name not in {*_LIKE_OURS, "nvidia"}:
        raise UsageError(message=f"--runtime={runtime}: spotrun can only save what runc runs")
    wanted = name == "nvidia" and not any(option.name == "--gpus" for option in given)
    made = Fitted(_devices(cdi.visible(_variable(given)) if wanted else []))
    become = "has become " + " ".join(made.words) if made.words else "is left out"
    return replace(made, notes=(f"spotrun has its own OCI runtime: --runtime={runtime} {become}",))


def _variable(given: Sequence[Option]) -> str:
    """Return NVIDIA_VISIBLE_DEVICES as the options set it; NVIDIA's images say `all`."""
    name = "NVIDIA_VISIBLE_DEVICES"
    texts = [option.value or "" for option in given if option.name == "--env"]
    values = [os.environ.get(name, "all") if text == name else text for text in texts]
    found = [text.removeprefix(f"{name}=") for text in values if text.startswith(f"{name}=")]
    return found[-1] if found else "all"


def _warnings(option: Option, engine: Engine) -> list[str]:
    """Say what is in the way of an option on some host or at some time."""
    said, text, found = " ".join(option.words), option.value or "", []
    if option.name in _OTHER_CONTAINER or text.startswith("container:"):
        found.append(f"{said}: the job can only go on where a container of that name is")
    if option.name == "--log-driver" and text not in _FILE_LOGS:
        found.append(f"{said}: what the job writes does not come along with it")
    if option.name in {"--gpus", "--device"} and _cannot_be_saved(option):
        found.append(f"{said}: the job cannot be saved while one of its processes uses that")
    known = grammar.KNOWN.get(option.name)
    if known and engine.name not in known.engines:
        (other,) = known.engines
        found.append(f"{option.name} is an option of {other}'s; --engine {other} has it")
    return found


def _cannot_be_saved(device: Option) -> bool:
    from spotrun.runtime import preflight

    path = "/dev/nvidia" if device.name == "--gpus" else (device.value or "").partition(":")[0]
    return preflight.obstacle(f"{path.rstrip('/')}/") is not None


def _labels(option: Option, folder: Path) -> list[Option]:
    """Return the labels in a file, one a line; docker-run(1)."""
    if option.name != "--label-file":
        return []
    try:
        lines = (folder / (option.value or "")).read_text().splitlines()
    except (OSError, UnicodeError) as error:
        raise UsageError(message=f"--label-file={option.value}: {error}") from error
    words = [line.lstrip() for line in lines]
    return [Option("--label", word) for word in words if word and not word.startswith("#")]


def _absolute(option: Option, folder: Path) -> Option:
    """Name a path of the host in full; a relative one begins with a dot, or it is a volume."""
    text = option.value or ""
    if option.name == "--volume" and text.startswith(".") and ":" in text:
        source, _, rest = text.partition(":")
        return replace(option, value=f"{os.path.normpath(folder / source)}:{rest}")
    if option.name == "--mount" and "type=bind" in text.split(","):
        full = _SOURCE.sub(lambda at: at[1] + os.path.normpath(folder / at[2]), text)
        return replace(option, value=full)
    return option
