"""Which image a registry has, so that its digest is enough: by what the engines leave on disk."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from spotrun.images.errors import EngineError
from spotrun.images.process import Completed
from spotrun.runtime import containerd, docker_images, engine_cli, podman
from spotrun.runtime.containerd import Containerd
from tests.fakes.runner import ScriptedRunner

_DIGEST: Final = f"sha256:{'1' * 64}"
_LAYER: Final = f"sha256:{'2' * 64}"
_CONFIG: Final = "3" * 64
_REFS: Final = f"containerd.io/gc.ref.content.config={_LAYER}"
_SOURCE: Final = "containerd.io/distribution.source"


def _sources(labels: str, monkeypatch: pytest.MonkeyPatch) -> frozenset[str]:
    """Return what is read of a manifest with these labels."""
    monkeypatch.setattr(containerd, "_SOCKETS", (Path("/c.sock"),))
    said = f"DIGEST\t\tSIZE\tAGE\t\tLABELS\n{_DIGEST}\t422B\tLess than a second\t{labels}\n"
    argv = ("ctr", "--address=/c.sock", "--namespace=moby", "content", "ls", f"digest=={_DIGEST}")
    return Containerd(ScriptedRunner({argv: Completed(0, said)}), "overlayfs").sources(_DIGEST)


@pytest.mark.parametrize(
    ("labels", "sources"),
    [
        ("-", ()),
        (_REFS, ()),
        (f"{_SOURCE}.docker.io=me/mine,{_REFS}", ("docker.io/me/mine",)),
        (
            f"{_SOURCE}.docker.io=me/a,me/b,{_SOURCE}.localhost=team/c,{_REFS}",
            ("docker.io/me/a", "docker.io/me/b", "localhost/team/c"),
        ),
    ],
)
def test_containerd_knows_where_content_came_from_or_went(
    labels: str, sources: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By labels, whose values have the commas that part them, too."""
    assert _sources(labels, monkeypatch) == set(sources)


@pytest.mark.parametrize(
    ("named", "sources", "counts"),
    [
        (("mine",), (), None),
        (("mine",), None, "docker.io/library/mine"),
        (("localhost/mine",), None, None),
        (("me/mine",), ("docker.io/me/mine",), "docker.io/me/mine"),
        (("mine", "r.io:5000/team/mine"), ("r.io/team/mine",), "r.io:5000/team/mine"),
        (("me/mine",), ("docker.io/me/other", "r.io/me/mine"), None),
    ],
)
def test_digest_counts_only_in_a_repository_that_has_it(
    named: tuple[str, ...], sources: tuple[str, ...] | None, counts: str | None
) -> None:
    """Docker on containerd names digests in those of all tags, also if nobody ever pushed them."""
    attrs = {"RepoDigests": [f"{it}@{_DIGEST}" for it in named], "RootFS": {"Layers": [_LAYER]}}
    found = docker_images.described(named[0], attrs, _CONFIG, sources)
    assert found.digest == (counts and f"{counts}@{_DIGEST}")


def _of_podman(storage: Path, manifest: str | None, name: str) -> str | None:
    """Return the digest that counts of an image with this manifest."""
    if manifest is not None:
        (storage / "overlay-images" / _CONFIG).mkdir(parents=True)
        (storage / "overlay-images" / _CONFIG / "manifest").write_text(manifest)
    attrs: dict[str, Any] = {
        "Id": _CONFIG,
        "RepoDigests": [f"{name}@{_DIGEST}"],
        "RootFS": {"Layers": [_LAYER]},
        "GraphDriver": {"Data": {"UpperDir": str(storage / "overlay" / "layer" / "diff")}},
    }
    return podman.described(f"{name}:1", attrs).digest


def _manifest(layer: str) -> str:
    return json.dumps({"schemaVersion": 2, "layers": [{"digest": layer}]})


@pytest.mark.parametrize("manifest", [None, "", "{}", _manifest(_LAYER)])
def test_digest_that_podman_made_itself_does_not_count(
    tmp_path: Path, manifest: str | None
) -> None:
    """Nor does one that cannot be told from those: then the image travels, which is safe."""
    assert _of_podman(tmp_path, manifest, "docker.io/me/mine") is None


def test_digest_of_compressed_layers_counts(tmp_path: Path) -> None:
    """They are those of a registry, which this host itself is not."""
    manifest = _manifest(f"sha256:{'4' * 64}")
    name = "docker.io/me/mine"
    assert _of_podman(tmp_path / "a", manifest, name) == f"{name}@{_DIGEST}"
    assert _of_podman(tmp_path / "b", manifest, "localhost/mine") is None


@pytest.mark.parametrize(
    "said", ["Error: no such thing\n", "docker: Error response from daemon: no such thing\n"]
)
def test_failed_command_of_an_engine_is_its_last_sentence(said: str) -> None:
    """Without what either CLI puts in front."""
    runner = ScriptedRunner({("podman", "x"): Completed(1, stderr=f"a warning\n{said}")})
    with pytest.raises(EngineError, match=r"^podman: no such thing$"):
        engine_cli.checked(runner, "podman", ["podman", "x"])
