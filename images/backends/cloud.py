"""Google Cloud Storage, `gs://BUCKET/PREFIX`, and Azure, `az://CONTAINER/PREFIX?account=NAME`.

Credentials come from where obstore finds them: for Google from `GOOGLE_APPLICATION_CREDENTIALS`,
`gcloud auth application-default login` or the instance; for Azure from `AZURE_STORAGE_*`, a
managed identity or a federated token. `account` stands for `AZURE_STORAGE_ACCOUNT_NAME`.

The engine and its retries are those of S3, which is tested against a real server. These two are
not: spotrun's tests reach neither service, and cover no more than the reading of the URL.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from obstore.store import AzureStore, GCSStore

from spotrun.images.backends.objects import ObjectBackend, made
from spotrun.images.backends.url import parse
from spotrun.images.patience import Patience

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, RetryConfig

_RETRY: "Final[RetryConfig]" = {"max_retries": 0}


def open_gcs(url: str, patience: Patience) -> ObjectBackend:
    """Open a store in a bucket that exists."""
    parsed = parse(url)
    store = made(
        parsed.name,
        lambda: GCSStore(
            parsed.bucket,
            prefix=parsed.prefix,
            client_options=_client(patience),
            retry_config=_RETRY,
        ),
    )
    return ObjectBackend(store, parsed.name, patience=patience)


def open_azure(url: str, patience: Patience) -> ObjectBackend:
    """Open a store in a container that exists."""
    parsed = parse(url, "account")
    config: AzureConfig = {}
    if "account" in parsed.options:
        config["account_name"] = parsed.options["account"]
    store = made(
        parsed.name,
        lambda: AzureStore(
            parsed.bucket,
            prefix=parsed.prefix,
            config=config,
            client_options=_client(patience),
            retry_config=_RETRY,
        ),
    )
    return ObjectBackend(store, parsed.name, patience=patience)


def _client(patience: Patience) -> "ClientConfig":
    return {"timeout": timedelta(seconds=patience.request)}
