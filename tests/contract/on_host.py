"""Runs one behaviour of a suite on the real engine and OCI runtime of the host it is started on.

`python -m tests.contract.on_host podman engine_suite started_container_runs IMAGE`;
it needs no pytest, which lab hosts do not have.
"""

import sys
import tempfile
import time
from pathlib import Path

from spotrun.images.process import SystemRunner
from spotrun.runtime import engines, launcher
from spotrun.runtime.engine import CRIU_ANNOTATION
from spotrun.runtime.paths import Paths
from spotrun.runtime.runc import Runc
from tests.contract import engine_suite, oci_suite


def main(name: str, suite: str, behaviour: str, image: str) -> None:
    """Raise whatever the behaviour raises."""
    paths, runner = Paths(), SystemRunner()
    paths.prepare()
    launcher.install(paths)
    engine = engines.engine(name, runner, paths)
    if suite == "engine_suite":
        getattr(engine_suite, behaviour)(engine, image)
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        annotation = f"--annotation={CRIU_ANNOTATION}={oci_suite.criu_config(place)}"
        container = engine.create([annotation, image, *oci_suite.COMMAND])
        engine.start(container)
        oci = Runc(runner, root=engine.runc_root)
        while len(oci.processes(container)) < oci_suite.PROCESSES:
            time.sleep(0.01)
        getattr(oci_suite, behaviour)(oci, container, place)


if __name__ == "__main__":
    main(*sys.argv[1:])
