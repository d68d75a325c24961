"""Files in which spotrun keeps what it knows: they are there and make sense, or say why not."""

from pathlib import Path
from typing import TypeVar

from spotrun.images.errors import StateDamaged

T = TypeVar("T")


def read(path: Path, kind: type[T]) -> T | None:
    """Return a JSON document; None: there is none; StateDamaged: it is something else."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    import msgspec

    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as error:
        raise StateDamaged(file=path, reason=error) from error
