"""A store's name says what kind it is; one that says nothing is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from spotrun.images.backends import open_backend
from spotrun.images.backends.base import is_key
from spotrun.images.backends.directory import DirectoryBackend
from spotrun.images.backends.url import parse
from spotrun.images.errors import UsageError


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/srv/store", "/srv/store"),
        ("file:///srv/store", "/srv/store"),
        ("file:///srv/my%20store", "/srv/my store"),
        ("/srv/my%20store", "/srv/my%20store"),
    ],
)
def test_path_is_a_directory(url: str, path: str) -> None:
    """Written as it is, or as a URL."""
    backend = open_backend(url)
    assert isinstance(backend, DirectoryBackend)
    assert backend.root == Path(path)


def test_path_is_that_of_this_moment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A later change of the current directory does not move the store."""
    monkeypatch.chdir(tmp_path)
    assert str(open_backend("store")) == str(tmp_path / "store")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "file://host/path",
        "file:relative",
        "file:///path?option=1",
        "ftp://host/path",
        "https://host/path",
        "s3:",
        "s3:/bucket",
        "s3://",
        "s3:///prefix",
        "s3://user:secret@bucket/prefix",
        "s3://bucket/a/../b",
        "s3://bucket/a//b",
        "s3://bucket/a b",
        "s3://bucket#part",
        "s3://bucket?regoin=eu",
        "gs://bucket?region=eu",
        "az://",
    ],
)
def test_name_that_makes_no_sense_is_refused(url: str) -> None:
    """In one sentence, before anything is asked for."""
    with pytest.raises(UsageError, match=r"^store ") as caught:
        open_backend(url)
    assert "\n" not in str(caught.value)


def test_url_is_taken_apart() -> None:
    """Its options are no part of what a user calls the store."""
    whole = parse("s3://bucket/a/b/?region=eu&endpoint=https://host:1/", "region", "endpoint")
    assert (whole.name, whole.bucket, whole.prefix) == ("s3://bucket/a/b", "bucket", "a/b")
    assert whole.options == {"region": "eu", "endpoint": "https://host:1/"}
    bare = parse("s3://bucket")
    assert (bare.name, bare.prefix, bare.options) == ("s3://bucket", None, {})


@pytest.mark.parametrize("text", ["a", "a/b/c", ".a", "...", "a..b", "A-Z_0.9"])
def test_key_has_parts(text: str) -> None:
    """Each of them has a character that is no dot, or more than two dots."""
    assert is_key(text)


@pytest.mark.parametrize(
    "text", ["", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "~a", "ä", "a\n"]
)
def test_key_is_no_path(text: str) -> None:
    """It leads nowhere else, and is the same on every kind of store."""
    assert not is_key(text)


def test_directory_needs_no_heavy_library() -> None:
    """A host without object stores does not pay for them."""
    code = (
        "import sys; from spotrun.images.backends import open_backend; open_backend('/srv');"
        "print(*{'obstore', 'boto3', 'botocore', 'tenacity'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
