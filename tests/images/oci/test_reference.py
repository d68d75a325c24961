"""What names a place in a registry, and what does not."""

import pytest

from spotrun.images.errors import UsageError
from spotrun.images.oci.reference import Reference, parse

_DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oci://registry.example.com/a:1", Reference("registry.example.com", "a", "1")),
        ("oci://registry.example.com/a", Reference("registry.example.com", "a")),
        (
            "oci://localhost:5000/a/b__c/d-e.f:T_1",
            Reference("localhost:5000", "a/b__c/d-e.f", "T_1"),
        ),
        (f"oci://[::1]:5000/a@{_DIGEST}", Reference("[::1]:5000", "a", None, _DIGEST)),
        (f"oci://r/a:1@{_DIGEST}", Reference("r", "a", "1", _DIGEST)),
        ("oci://docker.io/a:1", Reference("docker.io", "library/a", "1")),
        ("oci://docker.io/a/b:1", Reference("docker.io", "a/b", "1")),
    ],
)
def test_reference_is_parted(text: str, expected: Reference) -> None:
    """Registry, repository, tag and digest, as the image tools part them."""
    assert parse(text) == expected
    assert str(expected) == text.replace("docker.io/a:", "docker.io/library/a:")


@pytest.mark.parametrize(
    "text",
    [
        "registry.example.com/a:1",
        "docker://registry.example.com/a:1",
        "oci://",
        "oci://registry.example.com",
        "oci://registry.example.com/",
        "oci://registry.example.com/A:1",
        "oci://registry.example.com/a/../b:1",
        "oci://registry.example.com/a:",
        "oci://registry.example.com/a:b:c",
        "oci://registry.example.com/a@sha256:12",
        "oci://user@registry.example.com/a:1",
        "oci://registry.example.com/a:1?x",
        "oci://registry.example.com/a:1\n",
        "oci://-x/a",
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(UsageError, match="is not like oci://"):
        parse(text)


@pytest.mark.parametrize(
    ("registry", "loopback"),
    [
        ("localhost", True),
        ("localhost:5000", True),
        ("127.0.0.1:5000", True),
        ("127.1.2.3", True),
        ("[::1]:5000", True),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("10.0.0.1:5000", False),
        ("registry.example.com", False),
    ],
)
def test_only_this_host_is_spoken_to_without_tls(registry: str, *, loopback: bool) -> None:
    """A name that only looks like it is not this host."""
    assert Reference(registry, "a").loopback is loopback


def test_digest_counts_more_than_a_tag() -> None:
    """And without either it is the tag `latest`."""
    assert Reference("r", "a", "1", _DIGEST).wanted == _DIGEST
    assert Reference("r", "a", "1").wanted == "1"
    assert Reference("r", "a").wanted == "latest"
