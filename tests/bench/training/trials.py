"""Trainings drawn from a seed: faults in them that the guard has to catch, name and outlive, and sound ones that only look odd.

    python -m tests.bench.training.trials [--seed 1] [--faults 200] [--odd 124] [--plain 60]

Everything follows from the seed: network, optimizer, type, layer, step, whether a script gives a loss or a function. Prints what
went wrong, one line each, and the figures at the end. A sound training has to end with the weights that it has without a guard.
"""

import argparse
import contextlib
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tests.helpers.training_models import Trial, pick
from tests.helpers.training_oddities import Odd, oddity
from tests.helpers.training_trials import Case, case
from torch import Tensor

from halftone.training.guard import TrainingGuard, TrainingStopped

AFTER = 3
"""Sound steps after a fault."""
ODD_STEPS = 6


@dataclass(frozen=True)
class Outcome:
    """untouched: the weights stayed finite; goes_on: every step after the fault was made; kept: the step itself was."""

    case: Case
    caught: bool
    named: bool
    untouched: bool
    goes_on: bool
    kept: bool
    told: str

    @property
    def good(self) -> bool:
        return self.caught and self.named and self.untouched and self.goes_on and (self.kept or not self.owes_step)

    @property
    def owes_step(self) -> bool:
        """Whether nothing in the step is lost, so that it has to be made. A loss that was computed already belongs to others."""
        return self.case.fault.keeps and not self.case.computed

    def line(self) -> str:
        marks = "".join("+" if mark else "-" for mark in (self.caught, self.named, self.untouched, self.goes_on, self.kept))
        how = "loss" if self.case.computed else "function"
        return f"{marks}  {self.case.fault.name:34} {self.case.trial.name:44} {self.case.trial.layer:11} {how:9} {self.told}"


def guarded(trial: Trial) -> TrainingGuard:
    return TrainingGuard(trial.network, trial.optimizers, **trial.settings)


def faulty(one: Case) -> Outcome:
    trial, guard = one.trial, guarded(one.trial)
    for _ in range(one.at):
        trial.batch()
        guard.step(trial.loss)
    trial.batch()
    before = len(guard.caught)
    end = one.fault.put(trial, guard)
    applied = False
    with contextlib.suppress(TrainingStopped):
        applied = guard.step(trial.loss() if one.computed else trial.loss).applied
    found = guard.caught[before:]
    if end is not None:
        end()
    finite = _finite(trial)
    goes_on: list[bool] = []
    for _ in range(AFTER):
        trial.batch()
        try:
            goes_on.append(guard.step(trial.loss).applied)
        except TrainingStopped:
            goes_on.append(False)
    guard.remove()
    right = [c for c in found if c.cause in one.fault.causes and one.fault.named(trial, c.name)]
    told = "; ".join(f"{c.cause} in {c.name}, {c.did} {c.cure} after {c.tries}" for c in found)
    return Outcome(one, bool(found), bool(right), finite and _finite(trial), all(goes_on), applied, told)


def _finite(trial: Trial) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in trial.network.state_dict().values())


def plain_alarms(seed: int, number: int) -> list[str]:
    """Return what a guard says of a plain sound training."""
    trial = pick(100_003 * seed + number)
    guard = guarded(trial)
    for _ in range(8):
        trial.batch()
        guard.step(trial.loss() if number % 2 else trial.loss)
    guard.remove()
    return _said(trial.name, guard)


def odd_alarms(seed: int, number: int) -> list[str]:
    """Return what a guard says of a sound training that looks odd, and where it ends elsewhere than without a guard."""
    odd, plain = oddity(seed, number), oddity(seed, number)
    guard = TrainingGuard(
        odd.network, odd.optimizers, scheduler=odd.scheduler or None, clip=odd.clip, scaler=odd.scaler, accumulate=odd.accumulate
    )
    torch.manual_seed(number)
    for step in range(1, ODD_STEPS + 1):
        report = guard.step((lambda step=step: odd.loss(step)) if number % 3 else odd.loss(step))
        if report.applied:
            odd.changed(step // odd.accumulate, guard)
    guard.remove()
    said = _said(odd.name, guard)
    if not odd.other and not _same(odd, _by_hand(plain, number)):
        said.append(f"{odd.name}: other weights than without a guard")
    return said


def _said(name: str, guard: TrainingGuard) -> list[str]:
    found = [f"{name}: {c.cause} in {c.name}, {c.did}" for c in guard.caught]
    return found + [f"{name}: omen {omen.code} of {omen.name}" for omen in guard.omens if omen.certain]


def _by_hand(odd: Odd, number: int) -> Odd:
    """The training as a script makes it without a guard."""
    torch.manual_seed(number)
    for step in range(1, ODD_STEPS + 1):
        value = odd.loss(step)
        (value / odd.accumulate).backward()
        if step % odd.accumulate:
            continue
        trained: list[Tensor] = [p for optimizer in odd.optimizers for g in optimizer.param_groups for p in g["params"]]
        if odd.clip is not None:
            own = {id(p) for p in trained}
            torch.nn.utils.clip_grad_norm_([p for p in odd.network.parameters() if id(p) in own], odd.clip)
        for optimizer in odd.optimizers:
            optimizer.step()
        for one in odd.scheduler:
            wants = isinstance(one, torch.optim.lr_scheduler.ReduceLROnPlateau)
            one.step(value.item()) if wants else one.step()
        odd.network.zero_grad()
        odd.changed(step // odd.accumulate, None)
    return odd


def _same(one: Odd, other: Odd) -> bool:
    pairs = zip(one.network.state_dict().values(), other.network.state_dict().values(), strict=True)
    return all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)


def _share(outcomes: Sequence[bool]) -> str:
    return f"{sum(outcomes)} of {len(outcomes)} ({sum(outcomes) / max(len(outcomes), 1):.1%})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=216)
    parser.add_argument("--odd", type=int, default=124)
    parser.add_argument("--plain", type=int, default=60)
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    outcomes = [faulty(case(wanted.seed, number)) for number in range(wanted.faults)]
    print(*(outcome.line() for outcome in outcomes if not outcome.good), sep="\n")
    odd = [odd_alarms(wanted.seed, number) for number in range(wanted.odd)]
    plain = [plain_alarms(wanted.seed, number) for number in range(wanted.plain)]
    print(*(line for lines in (*odd, *plain) for line in lines), sep="\n")
    print(f"\nseed {wanted.seed}: {len(outcomes)} faults, {dict(Counter(o.case.trial.form.name for o in outcomes))}")
    print(f"caught {_share([o.caught for o in outcomes])}")
    print(f"cause and place named right {_share([o.named for o in outcomes])}")
    print(f"weights and buffers finite {_share([o.untouched for o in outcomes])}")
    print(f"every later step made {_share([o.goes_on for o in outcomes])}")
    print(f"the step itself made, where nothing in it is lost {_share([o.kept for o in outcomes if o.owes_step])}")
    print(f"sound trainings: {wanted.odd} odd, {wanted.plain} plain; with an alarm {sum(map(bool, (*odd, *plain)))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
