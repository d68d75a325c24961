"""`spotrun doctor`: whether this host is fit."""

import os

import click

from spotrun.cli.common import format_option
from spotrun.cli.output import table
from spotrun.cli.result import Result
from spotrun.images.errors import ExitCode
from spotrun.runtime import doctor, engines
from spotrun.runtime.host import this_host


@click.command("doctor")
@format_option
def command() -> Result:
    """Check everything that freezing and restoring needs; each fault comes with its fix."""
    host = this_host()
    findings = doctor.examine(host.runner, host.engine.version, thorough=True)
    if os.geteuid() == 0:
        other = engines.beside(host.engine.name)
        findings = doctor.engines(findings, host.engine, host.on(other).engine if other else None)
    shown = table("", "CHECK", "FOUND", "FIX")
    for it in findings:
        shown.add_row("ok" if it.ok else "no", it.name, it.found, "" if it.ok else it.fix)
    fit = all(it.ok for it in findings)
    return Result(findings, shown, exit_code=ExitCode.OK if fit else ExitCode.OWN_ERROR)
