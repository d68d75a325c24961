"""A real registry (Debian's docker-registry) of one test's own, on loopback.

Who may use it: everybody, who has name and secret, or who has a token for them from a server that
this module has, too.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

Auth = Literal["none", "basic", "token"]
USER: Final = "user"
SECRET: Final = f"{USER}-secret"
REFRESH: Final = f"{USER}-refresh"
"""An identity token."""
_HTPASSWD: Final = f"{USER}:$2b$04$N9Dc1qqURCdiKDfz8trWUOgggCZG7gtp1xjWyGqw.gz/jK4mYmhH6\n"
_ISSUER: Final = "test-issuer"
_SERVICE: Final = "test-registry"
_START: Final = 30.0


class DockerRegistry:
    """Runs from `__enter__` to `__exit__`."""

    def __init__(self, auth: Auth = "none") -> None:
        """Choose a free port."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.folder = Path(tempfile.mkdtemp(prefix="spotrun-registry-"))
        self._auth = auth
        self._tokens = _TokenServer(self.folder) if auth == "token" else None

    @property
    def name(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def blobs(self) -> dict[str, Path]:
        """The files of all blobs, manifests among them, by digest."""
        found = (self.folder / "data").glob("docker/registry/v2/blobs/sha256/*/*/data")
        return {f"sha256:{path.parent.name}": path for path in found}

    def __enter__(self) -> Self:
        """Start it and wait until it answers."""
        config = self.folder / "config.yml"
        config.write_text(json.dumps(self._config()))
        with (self.folder / "log").open("wb") as log:
            self._server = subprocess.Popen(
                [str(Path(sys.executable).with_name("docker-registry")), "serve", str(config)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "OTEL_TRACES_EXPORTER": "none"},
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

    def log(self) -> str:
        """Return what it has written, one line a request among others."""
        return (self.folder / "log").read_text()

    def _end(self) -> None:
        self._server.kill()
        self._server.wait()
        if self._tokens:
            self._tokens.close()
        shutil.rmtree(self.folder)

    def _config(self) -> dict[str, Any]:
        """Return its configuration: JSON is YAML, too."""
        config: dict[str, Any] = {
            "version": "0.1",
            "log": {"level": "info"},
            "storage": {
                "filesystem": {"rootdirectory": str(self.folder / "data")},
                "delete": {"enabled": True},
            },
            "http": {"addr": self.name, "secret": "of the test"},
        }
        if self._auth == "basic":
            (self.folder / "htpasswd").write_text(_HTPASSWD)
            config["auth"] = {"htpasswd": {"realm": "test", "path": str(self.folder / "htpasswd")}}
        if self._tokens:
            config["auth"] = {"token": self._tokens.config}
        return config

    def _wait(self) -> None:
        late = time.monotonic() + _START
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while True:
            try:
                opener.open(f"http://{self.name}/v2/", timeout=5).close()
            except urllib.error.HTTPError as error:
                error.close()
                return
            except OSError:
                if self._server.poll() is not None or time.monotonic() > late:
                    raise
                time.sleep(0.02)
            else:
                return


class _TokenServer:
    """Gives whoever has name and secret, or the identity token, a token for what was asked."""

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._certificate = self._certified()
        bundle = folder / "issuer.pem"
        bundle.write_bytes(self._certificate.public_bytes(Encoding.PEM))
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)
                expected = base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
                allowed = self.headers.get("Authorization") == f"Basic {expected}"
                self._answer(allowed=allowed, scopes=query.get("scope", []))

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                allowed = form.get("refresh_token") == [REFRESH]
                self._answer(allowed=allowed, scopes=form.get("scope", []))

            def _answer(self, *, allowed: bool, scopes: list[str]) -> None:
                body = json.dumps({"token": server.token(scopes)} if allowed else {}).encode()
                self.send_response(200 if allowed else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.config = {
            "realm": f"http://127.0.0.1:{self._server.server_port}/token",
            "service": _SERVICE,
            "issuer": _ISSUER,
            "rootcertbundle": str(bundle),
        }

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def token(self, scopes: list[str]) -> str:
        """Return a JSON Web Token that permits what the scopes say."""
        now = int(time.time())
        fields = [it.split(":") for scope in scopes for it in scope.split()]
        access = [
            {"type": kind, "name": name, "actions": actions.split(",")}
            for kind, name, actions in fields
        ]
        claims = {"iss": _ISSUER, "sub": USER, "aud": _SERVICE, "access": access, "jti": str(now)}
        times = {"iat": now, "nbf": now - 10, "exp": now + 300}
        chain = [base64.b64encode(self._certificate.public_bytes(Encoding.DER)).decode()]
        head = {"typ": "JWT", "alg": "RS256", "x5c": chain}
        signed = f"{_encoded(head)}.{_encoded({**claims, **times})}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"

    def _certified(self) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _ISSUER)])
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )


def _encoded(document: dict[str, Any]) -> str:
    return _base64(json.dumps(document).encode())


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
