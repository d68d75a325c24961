"""An S3 server (SeaweedFS) on a lab host, which all hosts reach."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.lab.host import Host, wait_until

_PORT: Final = 8333
_BUCKET: Final = "snapshots"
_PYTHON: Final = "/opt/spotrun/venv/bin/python"
_ACTIONS: Final = ["Admin", "Read", "Write", "List"]
_CONFIG: Final = {
    "identities": [
        {
            "name": "lab",
            "credentials": [{"accessKey": "lab", "secretKey": "lab-secret"}],
            "actions": _ACTIONS,
        }
    ]
}
_CREDENTIALS: Final = "[default]\naws_access_key_id = lab\naws_secret_access_key = lab-secret\n"
_MAKE_BUCKET: Final = """
import boto3, sys
client = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1")
client.create_bucket(Bucket=sys.argv[2])
client.put_object(Bucket=sys.argv[2], Key="ready")
"""


@contextmanager
def served(host: Host, *clients: Host) -> Iterator[str]:
    """Give the URL of a place in a bucket on `host`; the clients get credentials for it."""
    for client in {host, *clients}:
        client.run(["mkdir", "-p", "/root/.aws", "/srv/s3"])
        client.path("/root/.aws/credentials").write_text(_CREDENTIALS)
    shutil.copy(Path(sys.executable).with_name("weed"), host.path("/srv/weed"))
    host.path("/srv/s3.json").write_text(json.dumps(_CONFIG))
    server = [
        *("/srv/weed", "server", "-filer", "-s3", f"-s3.port={_PORT}", f"-ip={host.address}"),
        *("-ip.bind=0.0.0.0", "-dir=/srv/s3", "-s3.config=/srv/s3.json"),
        *("-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"),
        *("-volume.max=200", "-master.volumeSizeLimitMB=64"),
    ]
    endpoint = f"http://{host.address}:{_PORT}"
    with host.popen(["sh", "-c", 'exec "$@" >/srv/log 2>&1', "weed", *server]) as running:
        try:
            wait_until([_PYTHON, "-c", _MAKE_BUCKET, endpoint, _BUCKET], host)
            yield f"s3://{_BUCKET}/jobs?endpoint={endpoint}&region=us-east-1"
        finally:
            running.kill()
