"""Faults put into small trainings: what the guard catches, before which harm, under which name; and sound runs beside them.

    python -m tests.bench.training.faults [--sound 100]

Prints a table and, at the end, the four figures: caught, weights untouched, cause named right, false alarms.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from tests.helpers.training_faults import FAULTS, TRAININGS, Fault, Training, make

from halftone.training.guard import TrainingGuard, TrainingStopped

STEPS = 3
"""Sound steps before a fault."""


@dataclass(frozen=True)
class Result:
    """of one fault in one training."""

    training: str
    fault: Fault
    caught: bool
    untouched: bool
    named: bool
    told: str


def guarded(training: Training) -> TrainingGuard:
    return TrainingGuard(training.network, training.optimizer, scaler=training.scaler, clip=1.0)


def one(training: Callable[[], Training], fault: Fault, *, computed: bool, seed: int = 0) -> Result | None:
    """None: the fault does not fit, or does no harm here. computed: the script gives a loss, not a function."""
    made = make(training, seed)
    guard = guarded(made)
    for _ in range(STEPS):
        made.batch()
        guard.step(made.loss)
    made.batch()
    if not fault.fits(made):
        guard.remove()
        return None
    before = [p.detach().clone() for p in made.network.parameters()]
    end = fault.put(made)
    after = [p.detach().clone() for p in made.network.parameters()]
    if fault.proves and not made.overflows():
        guard.remove()
        return None
    try:
        report = guard.step(_computed(made) if computed else made.loss)
        caught = report.caught
        applied = report.applied
    except TrainingStopped as stopped:
        caught = (stopped.caught,)
        applied = False
    now = [p.detach() for p in made.network.parameters()]
    if end is not None:
        end()
    finite = all(bool(torch.isfinite(p).all()) for p in now)
    kept = applied or any(_same(now, state) for state in (before, after))
    right = [c for c in caught if c.cause in fault.causes and fault.named(made, c.name)]
    told = "; ".join(f"{c.cause} in {c.name or 'the network'}, {c.did} {c.cure}" for c in caught)
    guard.remove()
    return Result(made.name, fault, bool(caught) or not applied, finite and kept, bool(right), told)


def _computed(training: Training) -> torch.Tensor | Callable[[], torch.Tensor]:
    """A loss that was computed already. What cannot be (a layer of another type fails in the pass) stays a function."""
    try:
        return training.loss()
    except RuntimeError:
        return training.loss


def _same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(one, other, strict=True))


def sound(runs: int) -> list[str]:
    """False alarms over that many sound runs of all trainings in turn."""
    alarms: list[str] = []
    for run in range(runs):
        made = make(TRAININGS[run % len(TRAININGS)], seed=run)
        guard = guarded(made)
        for _ in range(12):
            made.batch()
            computed = run % 2 == 1
            alarms += [f"{made.name}: {c.cause} in {c.name}" for c in guard.step(made.loss() if computed else made.loss).caught]
        guard.remove()
    return alarms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sound", type=int, default=100)
    sound_runs: int = parser.parse_args().sound
    results = [
        result
        for training in TRAININGS
        for fault in FAULTS
        for computed in (False, True)
        if (result := one(training, fault, computed=computed)) is not None
    ]
    for result in results:
        marks = "".join("+" if good else "-" for good in (result.caught, result.untouched, result.named))
        print(f"{marks}  {result.training:32} {result.fault.name:44} {result.told}")
    alarms = sound(sound_runs)
    print(*alarms, sep="\n")
    count = len(results)
    kinds = Counter(result.fault.kind for result in results)
    print(f"\n{count} faults over {len(TRAININGS)} trainings: {dict(kinds)}")
    print(f"caught {sum(r.caught for r in results)} of {count}")
    print(f"weights untouched {sum(r.untouched for r in results)} of {count}")
    print(f"cause and place named right {sum(r.named for r in results)} of {count} ({sum(r.named for r in results) / count:.1%})")
    print(f"false alarms {len(alarms)} in {sound_runs} sound runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
