"""Where the bytes of a store are: one contract (`base.Backend`), several kinds of places."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from spotrun.images.backends.base import Backend
from spotrun.images.errors import UsageError
from spotrun.images.patience import USUAL, Patience

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+):")


def open_backend(url: str, patience: Patience = USUAL) -> Backend:
    """Open `s3://…`, `gs://…`, `az://…`, `file:///path` or a path; UsageError: none of these."""
    scheme = _SCHEME.match(url)
    match scheme[1] if scheme else "":
        case "s3":
            from spotrun.images.backends.s3 import open_s3

            return open_s3(url, patience)
        case "gs":
            from spotrun.images.backends.cloud import open_gcs

            return open_gcs(url, patience)
        case "az":
            from spotrun.images.backends.cloud import open_azure

            return open_azure(url, patience)
        case "" | "file" if path := _path(url):
            from spotrun.images.backends.directory import DirectoryBackend

            return DirectoryBackend(path)
    raise UsageError(
        message=f"store {url!r} is neither a path nor s3://, gs://, az:// or file:///path"
    )


def _path(url: str) -> Path | None:
    """Return the path that is meant; None: there is none."""
    if not url.startswith("file:"):
        return Path(url).absolute() if url else None
    parts = urlsplit(url)
    whole = parts.scheme == "file" and not (parts.netloc or parts.query or parts.fragment)
    return Path(unquote(parts.path)) if whole and parts.path.startswith("/") else None
