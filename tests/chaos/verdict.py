"""What must hold of a job's life, whatever happens to it."""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.life import STEP, Outcome


def summary(outcome: Outcome) -> str:
    """Say how it went."""
    lost = [it.steps for it in outcome.losses]
    return (
        f"{outcome.events} events, {len(lost)} times gone on; lost {sum(lost)} of"
        f" {len(outcome.reference) - 1} steps, {max(lost, default=0)} at once"
        f" ({max(lost, default=0) * STEP:.1f} s)"
    )


def faults(outcome: Outcome) -> list[str]:
    """Return what does not hold."""
    return [*_copies(outcome), *_losses(outcome), *_comebacks(outcome), *_output(outcome)]


def _copies(outcome: Outcome) -> Iterator[str]:
    for both in outcome.twice:
        yield "ran at the same time: " + " and ".join(
            sorted(f"{it.container[:12]} on {it.host}" for it in both)
        )


def _losses(outcome: Outcome) -> Iterator[str]:
    for loss, limit in zip(outcome.losses, outcome.limits, strict=True):
        if loss.steps > limit:
            yield f"{loss.steps} steps were lost on {loss.copy.host}, at most {limit} may be"
    for snapshot in sorted(outcome.vanished):
        yield f"snapshot {snapshot} was committed, and has vanished"


def _comebacks(outcome: Outcome) -> Iterator[str]:
    for it in outcome.comebacks:
        if it.rung != "live":
            yield f"the job went on by {it.rung!r}: {it.reason}"
        elif it.snapshot != it.newest and not it.reason:
            yield f"the job went on from {it.snapshot}, though {it.newest} was committed"


def _output(outcome: Outcome) -> Iterator[str]:
    if outcome.ends > 1:
        yield f"the job has come to its end {outcome.ends} times"
    if outcome.output == outcome.reference:
        return
    for line, count in (Counter(outcome.output) - Counter(outcome.reference)).items():
        yield f"written {count} times too often: {line}"
    for line in Counter(outcome.reference) - Counter(outcome.output):
        yield f"not written: {line}"
    if sorted(outcome.output) == sorted(outcome.reference):
        yield "the output is in disorder"
