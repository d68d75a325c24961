"""`make demo`: a PyTorch training job moves to another host in mid-run."""

import time

from rich.console import Console

from tests.e2e.jobs import start
from tests.lab.host import Host
from tests.lab.images import store
from tests.lab.lab import Lab
from tests.lab.root import root

_STEPS = 40
_BEFORE = 12
_JOB = "train"


def main() -> None:
    """Show it."""
    console = Console(highlight=False, soft_wrap=True, width=120)
    with console.status("building what the lab needs (once: some two minutes) …"):
        root()
        store("torch")
    with Lab() as lab:
        a, b = lab.start(2, images=("torch",))
        console.rule(f"{a.name}: spotrun run --name {_JOB} … python3 train.py")
        start(a, _JOB, "torch", "python3", "/jobs/train.py", str(_STEPS), "1024", "0", "0.1")
        seen = _show(console, a, 0, _BEFORE)
        console.rule(f"{a.name}: spotrun migrate {_JOB} --to ssh://root@{b.name}")
        begun = time.monotonic()
        done = a.run(["spotrun", "migrate", _JOB, "--to", f"ssh://root@{b.name}"])
        console.print(done.stdout, end="")
        console.print(f"{done.stderr.strip()}, {time.monotonic() - begun:.1f} s in all")
        console.rule(f"{b.name}: spotrun logs -f {_JOB}")
        seen += _show(console, b, len(seen), _STEPS + 1)
        console.rule(f"{b.name}: spotrun ps")
        console.print(b.run(["spotrun", "ps"]).stdout, end="")
    steps = [int(line.split()[1]) for line in seen[:-1]]
    if steps != list(range(_STEPS)):
        raise SystemExit(f"the demo failed: the steps were {steps}")
    console.print(f"All {_STEPS} steps are there, none twice.")


def _show(console: Console, host: Host, first: int, until: int) -> list[str]:
    """Print a job's lines from number `first` on as they come, up to `until`; return them."""
    shown: list[str] = []
    with host.popen(["spotrun", "logs", "--follow", _JOB]) as follow:
        for number, line in enumerate(follow.stdout or ()):
            if number >= first:
                console.print(f"  {host.name}  {line.rstrip()}")
                shown.append(line)
            if number + 1 >= until:
                follow.kill()
                break
    return shown


if __name__ == "__main__":
    main()
