"""S3 and what speaks its protocol: `s3://BUCKET/PREFIX?OPTION=VALUE&…`.

endpoint
    URL of the server; `http://` is for tests. Default: what AWS's own tools use
    (`AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, the profile's), then AWS.
region
    Default: `AWS_DEFAULT_REGION`, the profile's, then `us-east-1`.
style
    `path` or `virtual`: where a request names the bucket. Default: `path` with an endpoint.
profile
    Section of the AWS configuration files. Default: `AWS_PROFILE`.
sse, sse_key
    `AES256`, or `aws:kms` and the key's id: encryption by the server. Default: the bucket's.

Credentials come from where boto3 finds them: the environment, profiles, SSO, web identity,
containers and instances. Over TLS the payload is not signed; its own hash covers it.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import botocore.session
from botocore.configprovider import ConfiguredEndpointProvider
from botocore.exceptions import BotoCoreError
from obstore.store import S3Store

from spotrun.images.backends.objects import ObjectBackend, made
from spotrun.images.backends.url import StoreUrl, parse
from spotrun.images.errors import StoreDenied, UsageError
from spotrun.images.patience import USUAL, Patience

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential

OPTIONS: Final = ("endpoint", "region", "style", "profile", "sse", "sse_key")
_CHOICES: Final = {"style": ("path", "virtual"), "sse": ("AES256", "aws:kms")}


class Credentials:
    """What boto3 finds, kept fresh by it; obstore asks before every request."""

    def __init__(self, store: str, profile: str | None) -> None:
        """Look for them; StoreDenied: there are none."""
        self._store = store
        self._profile = profile
        self.renew()

    def renew(self) -> None:
        """Forget what was found, and look again."""
        try:
            found = botocore.session.Session(profile=self._profile).get_credentials()
        except BotoCoreError as error:
            raise StoreDenied(store=self._store, reason=error) from error
        if found is None:
            raise StoreDenied(store=self._store, reason="there are no AWS credentials")
        self._found = found

    def __call__(self) -> "S3Credential":
        """Return those of this instant."""
        now = self._found.get_frozen_credentials()
        return {
            "access_key_id": now.access_key or "",
            "secret_access_key": now.secret_key or "",
            "token": now.token,
            "expires_at": datetime.now(UTC),  # no copy is kept: boto3 knows when to refresh
        }


def config(url: StoreUrl) -> "S3Config":
    """Return obstore's settings for a store; what the URL leaves open, AWS's own say."""
    given = url.options
    for option, choices in _CHOICES.items():
        if given.get(option, choices[0]) not in choices:
            raise UsageError(message=f"store option {option} is {' or '.join(choices)}")
    session = botocore.session.Session(profile=given.get("profile"))
    endpoint = given.get("endpoint") or _configured_endpoint(session)
    virtual = given.get("style", "path" if endpoint else "virtual") == "virtual"
    settings: S3Config = {
        "region": given.get("region") or session.get_config_variable("region") or "us-east-1",
        "virtual_hosted_style_request": virtual,
        "unsigned_payload": not endpoint.startswith("http://"),
    }
    if endpoint:
        settings["endpoint"] = _with_bucket(endpoint, url.bucket) if virtual else endpoint
    if "sse" in given:
        settings["server_side_encryption"] = given["sse"]
    if "sse_key" in given:
        settings["sse_kms_key_id"] = given["sse_key"]
    return settings


def _configured_endpoint(session: botocore.session.Session) -> str:
    provider = ConfiguredEndpointProvider(
        full_config=session.full_config,
        scoped_config=session.get_scoped_config(),
        client_name="s3",
    )
    return provider.provide() or ""


def _with_bucket(endpoint: str, bucket: str) -> str:
    parts = urlsplit(endpoint)
    return parts._replace(netloc=f"{bucket}.{parts.netloc}").geturl()


def open_s3(url: str, patience: Patience = USUAL) -> ObjectBackend:
    """Open a store in a bucket that exists."""
    parsed = parse(url, *OPTIONS)
    credentials = Credentials(parsed.name, parsed.options.get("profile"))
    settings = config(parsed)
    plain = settings.get("endpoint", "").startswith("http://")
    store = made(
        parsed.name,
        lambda: S3Store(
            parsed.bucket,
            prefix=parsed.prefix,
            config=settings,
            credential_provider=credentials,
            client_options={"allow_http": plain, "timeout": timedelta(seconds=patience.request)},
            retry_config={"max_retries": 0},
        ),
    )
    return ObjectBackend(store, parsed.name, patience=patience, renew=credentials.renew)
