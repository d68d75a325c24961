"""A snapshot that no other engine could use is not exported."""

from dataclasses import replace
from pathlib import Path

import pytest

from spotrun.images.errors import NotExportable
from spotrun.runtime import export
from spotrun.runtime.export import Form
from tests.fakes.host import fake_host
from tests.fakes.observer import Listener
from tests.fakes.snapshots import FACTS, publish


@pytest.mark.parametrize("form", Form)
def test_snapshot_of_docker_is_refused_with_the_way_out(tmp_path: Path, form: Form) -> None:
    """Its processes know Docker's mounts, which the archive's readers do not make."""
    host = fake_host(tmp_path).host
    facts = replace(FACTS, engine="docker 26.1.5")
    saved = publish(host.store(), host=facts)
    target = tmp_path / "archive"
    with pytest.raises(NotExportable, match=r"docker 26\.1\.5.*`spotrun restore --engine podman"):
        export.export(host, saved.snapshot, target, form=form, store=None, observer=Listener())
    assert not target.exists()
