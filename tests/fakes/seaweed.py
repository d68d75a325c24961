"""A real S3 server (SeaweedFS) of this session's own, on loopback."""

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import boto3
from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def _secret(name: str) -> str:
    return f"{name}-secret"


USER: Final = "user"
_ADMIN: Final = "admin"
SECRET: Final = _secret(USER)
NAME: Final = "spotrun-test"
"""Of the bucket."""
_SERVERS: Final = ("master", "volume", "filer", "s3")
_START: Final = 60.0


class Seaweed:
    """Runs from `__enter__` to `__exit__`, with one bucket."""

    def __init__(self) -> None:
        """Choose free ports."""
        names = [f"{name}.port{kind}" for name in _SERVERS for kind in ("", ".grpc")]
        ports = dict(zip(names, _free_ports(len(names)), strict=True))
        self._flags = [f"-{name}={port}" for name, port in ports.items()]
        self.port = ports["s3.port"]
        self._folder = Path(tempfile.mkdtemp(prefix="spotrun-s3-"))

    @property
    def endpoint(self) -> str:
        """URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        """Start it, wait until it answers, and make the bucket."""
        config = self._folder / "s3.json"
        config.write_text(json.dumps({"identities": [_identity(_ADMIN), _user()]}))
        with (self._folder / "log").open("wb") as log:
            self._server = subprocess.Popen(
                [
                    str(Path(sys.executable).with_name("weed")),
                    *("server", "-filer", "-s3", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
                    *(f"-dir={self._folder}", f"-s3.config={config}", *self._flags),
                    *("-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"),
                    *("-volume.max=200", "-master.volumeSizeLimitMB=64"),
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        try:
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it and remove what it wrote."""
        self._end()

    def _end(self) -> None:
        self._server.kill()
        self._server.wait()
        shutil.rmtree(self._folder)

    def client(self) -> "S3Client":
        """Return boto3's client, with all rights."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=_ADMIN,
            aws_secret_access_key=_secret(_ADMIN),
        )

    def _wait(self) -> None:
        client, late = self.client(), time.monotonic() + _START
        self._until_done(lambda: client.create_bucket(Bucket=NAME), late)
        self._until_done(lambda: client.put_object(Bucket=NAME, Key="ready"), late)

    def _until_done(self, call: Callable[[], object], late: float) -> None:
        while True:
            try:
                call()
            except (BotoCoreError, ClientError):
                if self._server.poll() is not None or time.monotonic() > late:
                    raise
                time.sleep(0.1)
            else:
                return


def _identity(name: str) -> dict[str, object]:
    credentials = [{"accessKey": name, "secretKey": _secret(name)}]
    return {"name": name, "credentials": credentials, "actions": ["Admin"]}


def _user() -> dict[str, object]:
    """Return one that cannot make buckets."""
    return {**_identity(USER), "actions": ["Read", "Write", "List"]}


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on at this instant."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [it.getsockname()[1] for it in sockets]
    for it in sockets:
        it.close()
    return ports


class Bucket:
    """A place in the server's bucket, for one test."""

    def __init__(self, server: Seaweed) -> None:
        """Choose a prefix that nobody else has."""
        self.server = server
        self.prefix = uuid.uuid4().hex

    def url(self, *, endpoint: str | None = None, bucket: str = NAME, below: str = "") -> str:
        """Return the store's URL; `endpoint` leads to the server."""
        options = f"endpoint={endpoint or self.server.endpoint}&region=us-east-1"
        return f"s3://{bucket}/{self.prefix}{below}?{options}"
