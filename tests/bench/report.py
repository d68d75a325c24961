"""How the figures are shown and kept."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from tests.bench.figures import Figure
from tests.bench.lifecycle import median_phases
from tests.bench.rounds import Samples
from tests.lab.root import REPOSITORY

_FILE = Path("build/bench.json")


def conditions(rounds: int, resident: int) -> list[str]:
    """Return what a reader must know of the measurement."""
    return [
        f"One PyTorch job of {resident >> 20} MiB each way, {rounds} interleaved rounds, medians.",
        "Each way was warmed up once: spotrun's first checkpoint of an image also saves the image.",
        "Snapshots and archives are removed between rounds, and memory has been used once before.",
        "again: of a job whose earlier snapshots, some steps back, are in the store.",
        "spotrun fsyncs what it stores, and ends and removes the container within its time.",
        "Podman compresses, leaves its archive in the page cache, and its `rm` is not counted.",
        "frozen: from the begin of `freeze` to the end of `thaw` of `checkpoint --leave-running`.",
        "restic: two dumps lie in memory; a new process each stores them on the disk, encrypted.",
        "s3: packs of 32 MiB, 4 at a time, read in ranges of 8 MiB.",
        "The server on loopback keeps nothing. Payloads are not signed, as over TLS.",
        "10000 snapshots: of 100 jobs, in a directory; prune keeps ten of each job.",
        "Peak memory is that of the whole process, some 50 MiB of Python and libraries included.",
    ]


def table(figures: Sequence[Figure]) -> Table:
    """Return the figures for people."""
    made = Table("FIGURE", "SPOTRUN", "AGAINST", "", "RATIO", "GOAL", box=None)
    for column in (1, 2, 4):
        made.columns[column].justify = "right"
    for it in figures:
        value, against = f"{it.value:.2f} {it.unit}", f"{it.against:.2f} {it.unit}"
        made.add_row(it.name, value, against, it.other, f"{it.ratio:.2f}", _goal(it))
    return made


def phases(samples: Samples) -> Table:
    """Return the median phases of spotrun's commands for people."""
    made = Table("SPOTRUN COMMAND", "PHASE", "SECONDS", box=None)
    made.columns[2].justify = "right"
    commands = {
        "checkpoint": samples.checkpoint,
        "checkpoint again": samples.checkpoint_again,
        "checkpoint --leave-running": samples.checkpoint_running,
        "restore": samples.restore,
    }
    for command, runs in commands.items():
        for name, seconds in median_phases(runs).items():
            made.add_row(command, name, f"{seconds:.3f}")
    return made


def write(figures: Sequence[Figure]) -> Path:
    """Keep the figures for programs; return the file."""
    rows = [
        {
            "name": it.name,
            "value": round(it.value, 4),
            "unit": it.unit,
            "against": round(it.against, 4),
            "ratio": round(it.ratio, 4),
        }
        for it in figures
    ]
    path = REPOSITORY / _FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"schema": 1, "figures": rows}, indent=1) + "\n")
    return path


def _goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    unit = f" {figure.unit}" if figure.goal.of_value else ""
    return f"{figure.goal}{unit}: {'met' if figure.goal.met(figure) else 'missed'}"
