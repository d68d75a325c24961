"""Docker's images: what it says of them, and their archives as the `dir:` form and back.

(containers-transports(5) describes the `dir:` form: the configuration and each layer are files
named by their digests, and `manifest.json` names them.)
"""

import gzip
import json
import shutil
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

import zstandard

from spotrun.images.process import Runner
from spotrun.images.runspec import ImageRef
from spotrun.runtime import engine_cli

_HUB: Final = "docker.io"
_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG: Final = "application/vnd.docker.container.image.v1+json"
_LAYER: Final = "application/vnd.docker.image.rootfs.diff.tar"
_PACKED: Final[dict[bytes, Callable[[IO[bytes]], Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"\x28\xb5": zstandard.ZstdDecompressor().stream_reader,
}
"""How to read a layer that begins so."""


def described(
    name: str, attrs: dict[str, Any], config: str, sources: Collection[str] | None
) -> ImageRef:
    """Return an image from what Docker says of it, and the digest of its configuration.

    `sources` are the repositories that have it; None: those of all digests that Docker names.
    """
    digests = [qualified(it) for it in attrs.get("RepoDigests") or ()]
    elsewhere = [
        it
        for it in digests
        if not it.startswith("localhost/") and (sources is None or _repository(it) in sources)
    ]
    return ImageRef(
        name=name,
        id=config,
        digest=elsewhere[0] if elsewhere else None,
        layers=tuple(attrs["RootFS"]["Layers"] or ()),
    )


def qualified(reference: str) -> str:
    """Return a reference with its registry, which Docker leaves out where it is Docker's own."""
    first, slash, _ = reference.partition("/")
    if slash and (first == "localhost" or {".", ":"} & set(first)):
        return reference
    return f"{_HUB}/{reference}" if slash else f"{_HUB}/library/{reference}"


def _repository(digest: str) -> str:
    """Return where an image lies as containerd has it, which leaves out the registry's port."""
    registry, _, path = digest.partition("@")[0].partition("/")
    return f"{registry.partition(':')[0]}/{path}"


def save(runner: Runner, command: Sequence[str], folder: Path) -> None:
    """Write an image, which `command` writes as an archive, in the `dir:` form."""
    folder.mkdir()
    with TemporaryDirectory(dir=folder) as name:
        _piped(runner, command, ["tar", "--extract", f"--directory={name}"])
        _sort(Path(name), folder)


def load(
    runner: Runner, command: Sequence[str], folder: Path, image: ImageRef, tag: str | None
) -> None:
    """Let `command` read an image in the `dir:` form; layers that Docker has may be missing."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    config = str(manifest["config"]["digest"]).partition(":")[2]
    layers = [layer.partition(":")[2] for layer in image.layers]
    with TemporaryDirectory(dir=folder.parent) as name:
        entry = {"Config": config, "RepoTags": [tag] if tag else None, "Layers": layers}
        (Path(name) / "manifest.json").write_text(json.dumps([entry]))
        here = [layer for layer in dict.fromkeys(layers) if (folder / layer).exists()]
        pack = ["tar", "--create", f"--directory={name}", "manifest.json"]
        _piped(runner, [*pack, f"--directory={folder}", config, *here], command)


def _sort(unpacked: Path, folder: Path) -> None:
    """Name the files of an archive by what they hold."""
    (entry,) = json.loads((unpacked / "manifest.json").read_bytes())
    config = unpacked / entry["Config"]
    diffs = json.loads(config.read_bytes())["rootfs"]["diff_ids"]
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _placed(config, folder / config.name.removesuffix(".json"), _CONFIG),
        "layers": [
            _placed(unpacked / path, folder / diff.partition(":")[2], _LAYER)
            for path, diff in zip(entry["Layers"], diffs, strict=True)
        ],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "version").write_text("Directory Transport Version: 1.1\n")


def _placed(source: Path, target: Path, media_type: str) -> dict[str, Any]:
    """Move a file, unpacked if need be, and describe it."""
    if not target.exists():  # an image may have the same layer twice
        with source.open("rb") as file:
            unpack = _PACKED.get(file.read(2))
            file.seek(0)
            if unpack is None:
                source.rename(target)
            else:
                with target.open("wb") as out:
                    shutil.copyfileobj(unpack(file), out)
    digest = f"sha256:{target.name}"
    return {"mediaType": media_type, "size": target.stat().st_size, "digest": digest}


def _piped(runner: Runner, producer: Sequence[str], consumer: Sequence[str]) -> None:
    for done in runner.pipe(producer, consumer):
        engine_cli.require("docker", done)
