"""An S3 store is set up as AWS's own tools would, and says what is wrong with it."""

from pathlib import Path

import pytest

from spotrun.images.backends import open_backend
from spotrun.images.backends.s3 import OPTIONS, config, open_s3
from spotrun.images.backends.url import parse
from spotrun.images.errors import StoreDenied, StoreUnavailable, UsageError
from spotrun.images.patience import Patience
from tests.fakes.seaweed import SECRET, USER, Bucket


@pytest.fixture(autouse=True)
def _clean(no_aws: None) -> None:
    """Let nothing come from the environment that is not of the test."""


def _config(query: str) -> dict[str, object]:
    return dict(config(parse(f"s3://bucket/prefix?{query}", *OPTIONS)))


def test_aws_is_the_default() -> None:
    """Buckets by host name, payloads not signed, since there is TLS."""
    assert _config("") == {
        "region": "us-east-1",
        "virtual_hosted_style_request": True,
        "unsigned_payload": True,
    }


def test_endpoint_means_buckets_by_path() -> None:
    """Unless it is asked for otherwise."""
    by_path = _config("endpoint=https://host:9000")
    assert by_path["endpoint"] == "https://host:9000"
    assert by_path["virtual_hosted_style_request"] is False
    by_host = _config("endpoint=https://host:9000&style=virtual")
    assert by_host["endpoint"] == "https://bucket.host:9000"
    assert by_host["virtual_hosted_style_request"] is True


def test_payload_is_signed_where_nothing_else_protects_it() -> None:
    """Without TLS it could be changed under way."""
    assert _config("endpoint=http://host:9000")["unsigned_payload"] is False


def test_endpoint_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of S3 before that of all services, that of the URL before both."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://all")
    assert _config("")["endpoint"] == "https://all"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3")
    assert _config("")["endpoint"] == "https://s3"
    assert _config("endpoint=https://own")["endpoint"] == "https://own"


def test_profile_gives_region_and_endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """That of the URL before that of the environment."""
    file = tmp_path / "config"
    file.write_text(
        "[profile one]\nregion = eu-one\nendpoint_url = https://one\n[profile two]\nregion = eu-two"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "two")
    assert _config("")["region"] == "eu-two"
    one = _config("profile=one")
    assert (one["region"], one["endpoint"]) == ("eu-one", "https://one")
    assert _config("profile=one&region=mine")["region"] == "mine"


def test_server_side_encryption_is_asked_for() -> None:
    """With a key of the user's or without."""
    assert _config("sse=AES256")["server_side_encryption"] == "AES256"
    settings = _config("sse=aws:kms&sse_key=alias/mine")
    assert settings["server_side_encryption"] == "aws:kms"
    assert settings["sse_kms_key_id"] == "alias/mine"


@pytest.mark.parametrize("option", ["style=host", "sse=yes", "sse="])
def test_unknown_choice_is_refused(option: str) -> None:
    """The choices are named."""
    with pytest.raises(UsageError, match=" or "):
        _config(option)


def test_no_credentials_are_told() -> None:
    """Before anything is asked of the server."""
    with pytest.raises(StoreDenied, match="there are no AWS credentials"):
        open_s3("s3://bucket")


def test_unknown_profile_is_told() -> None:
    """By its name."""
    with pytest.raises(StoreDenied, match="nobody"):
        open_s3("s3://bucket?profile=nobody")


@pytest.mark.s3
def test_prefixes_are_stores_apart(bucket: Bucket) -> None:
    """Also where one begins like the other."""
    one, other = open_backend(bucket.url(below="/a")), open_backend(bucket.url(below="/ab"))
    one.put("x/it", b"one")
    other.put("x/it", b"other")
    assert (one.get("x/it"), other.get("x/it")) == (b"one", b"other")
    assert [it.size for it in one.list("x/")] == [3]
    one.delete(["x/it"])
    assert list(one.list()) == []
    assert [it.key for it in other.list()] == ["x/it"]


@pytest.mark.s3
def test_missing_bucket_is_told(bucket: Bucket) -> None:
    """It is something else than a missing object."""
    store = open_backend(bucket.url(bucket="no-such-bucket", below="/p"))
    for use in (lambda: store.get("it"), lambda: store.read("it", 0, 1), store.list):
        with pytest.raises(StoreUnavailable, match=r"\(NoSuchBucket\)$"):
            use()
    with pytest.raises(StoreUnavailable):
        store.put("it", b"")


@pytest.mark.s3
@pytest.mark.parametrize(
    ("key", "secret", "reason"),
    [("nobody", SECRET, "InvalidAccessKeyId"), (USER, "wrong", "SignatureDoesNotMatch")],
)
def test_bad_credentials_are_told_in_one_sentence(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, key: str, secret: str, reason: str
) -> None:
    """With the server's own reason, and without the secret."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    store = open_backend(bucket.url())
    for use in (lambda: store.put("it", b""), lambda: store.get("it"), store.list):
        with pytest.raises(StoreDenied) as caught:
            use()
        assert str(caught.value).endswith(f"({reason})")
        assert "\n" not in str(caught.value)
        assert secret not in str(caught.value)
        assert caught.value.hint


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("http://127.0.0.1:1", "Connection refused"),
        ("http://nowhere.invalid", "failed to lookup address information"),
    ],
)
def test_unreachable_server_is_told(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, reason: str
) -> None:
    """With the system's reason."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    store = open_s3(f"s3://bucket?endpoint={endpoint}", Patience(request=1, total=1))
    with pytest.raises(StoreUnavailable, match=reason):
        store.put("it", b"")
