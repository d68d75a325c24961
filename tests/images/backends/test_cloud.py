"""URLs of Google's and Azure's stores are read; the services themselves are out of reach."""

import os
from typing import TYPE_CHECKING, cast

import pytest

from spotrun.images.backends import open_backend
from spotrun.images.backends.objects import ObjectBackend
from spotrun.images.errors import StoreUnavailable

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing come from the environment."""
    for name in [it for it in os.environ if it.startswith(("AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)


def test_google_store_has_bucket_and_prefix() -> None:
    """Nothing is asked of the service until it is used."""
    backend = cast("ObjectBackend", open_backend("gs://bucket/a/b"))
    store = cast("GCSStore", backend.engine)
    assert (str(backend), store.config["bucket"], store.prefix) == (
        "gs://bucket/a/b",
        "bucket",
        "a/b",
    )
    assert store.retry_config
    assert store.retry_config["max_retries"] == 0


def test_azure_store_has_account_container_and_prefix() -> None:
    """The account comes with the URL or from the environment."""
    backend = cast("ObjectBackend", open_backend("az://container/a/b?account=mine"))
    store = cast("AzureStore", backend.engine)
    assert (str(backend), store.prefix) == ("az://container/a/b", "a/b")
    assert store.config == {"account_name": "mine", "container_name": "container"}


def test_account_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any, the store is refused."""
    with pytest.raises(StoreUnavailable, match="Account must be specified"):
        open_backend("az://container")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "mine")
    assert str(open_backend("az://container")) == "az://container"


def test_broken_credentials_file_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its path."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent")
    with pytest.raises(StoreUnavailable, match="/nonexistent"):
        open_backend("gs://bucket")
