"""Runs one behaviour of a suite on the real engine and OCI runtime of the host it is started on.

`python -m tests.contract.on_host engine_suite started_container_runs localhost/lab/busybox:1`;
it needs no pytest, which lab hosts do not have.
"""

import sys
import tempfile
from pathlib import Path

from spotrun.images.process import SystemRunner
from spotrun.runtime import launcher
from spotrun.runtime.engine import CRIU_ANNOTATION
from spotrun.runtime.paths import Paths
from spotrun.runtime.podman import Podman
from spotrun.runtime.runc import Runc
from tests.contract import engine_suite, oci_suite


def main(suite: str, behaviour: str, image: str) -> None:
    """Raise whatever the behaviour raises."""
    paths, runner = Paths(), SystemRunner()
    paths.prepare()
    launcher.install(paths)
    engine = Podman(runner, paths)
    if suite == "engine_suite":
        getattr(engine_suite, behaviour)(engine, image)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        annotation = f"--annotation={CRIU_ANNOTATION}={oci_suite.criu_config(folder)}"
        container = engine.create([annotation, image, *oci_suite.COMMAND])
        engine.start(container)
        getattr(oci_suite, behaviour)(Runc(runner), container, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
