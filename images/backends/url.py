"""The URL of a store: `SCHEME://BUCKET/PREFIX?OPTION=VALUE&…`."""

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from spotrun.images.backends.base import is_key
from spotrun.images.errors import UsageError


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """The parts of a URL that names a bucket."""

    name: str
    """The URL without its options: what a user calls the store."""
    bucket: str
    prefix: str | None
    options: dict[str, str]


def parse(url: str, *options: str) -> StoreUrl:
    """Take a URL apart; UsageError: it names no bucket, or an option that is not one of these."""
    parts = urlsplit(url)
    prefix = parts.path.strip("/")
    if not parts.netloc or parts.username is not None or parts.fragment:
        raise UsageError(message=f"store {url!r} is not of the form {parts.scheme}://BUCKET/PREFIX")
    if prefix and not is_key(prefix):
        raise UsageError(message=f"store {url!r}: a prefix has only A-Z a-z 0-9 . _ - and /")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(given.keys() - set(options)):
        known = ", ".join(options) or "none"
        raise UsageError(message=f"store {url!r}: no option {unknown[0]!r}; there are: {known}")
    name = f"{parts.scheme}://{parts.netloc}/{prefix}".rstrip("/")
    return StoreUrl(name, parts.netloc, prefix or None, given)
