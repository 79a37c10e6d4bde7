"""What one plan gave: its results beside those of the range pass."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from halftone.contract.plan import Cure
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import PART, power_of_parts, relative_error, tensors_in
from halftone.engine.sampling.frames import from_decoder
from halftone.engine.sampling.hooks import is_finite
from halftone.engine.weights.calls import CLOSE, Call
from halftone.measure.pictures import psnr

CLEARLY: Final = 40.0
"""dB from which two pictures are the same, with room for pictures that were not looked at."""
BEST: Final = 120.0
"""dB given for the same picture, because a report holds finite numbers."""


@dataclass
class Tally:
    """errors: relative, per result; psnr: dB, worst picture; unsound: a call lacks a sound reference; whole: all compared."""

    errors: list[float] = field(default_factory=list[float])
    runs: dict[str, dict[str, list[float]]] = field(default_factory=dict[str, dict[str, list[float]]])
    """By component and method: seconds of single runs."""
    psnr: float | None = None
    finite: bool = True
    unsound: bool = False
    whole: bool = True

    def book(self, call: Call, result: Any, reference: Any) -> None:
        """Compare a result with that of the range pass."""
        finite = is_finite(result)
        self.finite = self.finite and finite
        self.errors.append(relative_error(result, reference) if finite else float("inf"))
        if call.method == "decode" and finite:
            ours, theirs = (from_decoder(next(tensors_in(value))) for value in (result, reference))
            found = picture_psnr(ours, theirs)
            self.psnr = found if self.psnr is None else min(self.psnr, found)

    def refusal(self) -> Words | None:
        """The reason why a plan is not offered; None if it is."""
        if self.unsound:
            return Words("FP32 gives NaN or infinity as well, so there is nothing to compare with.")
        if not self.finite:
            return Words("It gives NaN or infinity as well.")
        if not self.errors:
            return Words("Nothing that it changes ran.")
        error = max(self.errors)
        return Words("Its result differs from FP32 by {0}.", (f"{error * 100:.0f}\u00a0%",)) if error > CLOSE else None


def closest(cures: Iterable[Cure]) -> Cure | None:
    """Of cures that change more and more, each run only when asked for: the first whose picture is clearly that of float32, else
    the closest that holds. One that is not finite ends the search.
    """
    held: Cure | None = None
    for cure in cures:
        if cure.refusal is None and (held is None or _decibels(cure) > _decibels(held)):
            held = cure
        if (cure.refusal is None and _decibels(cure) >= CLEARLY) or cure.plan.error is None:
            break
    return held


def _decibels(cure: Cure) -> float:
    """How close its picture is; of one that needed no look the best there is."""
    return BEST if cure.psnr is None else cure.psnr


def picture_psnr(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """dB between pictures in [0, 1]; minus infinity where ours is not finite; less where one region is too far off."""
    if not is_finite(ours):
        return -math.inf
    first, second = (picture.float().clamp(0, 1).cpu() for picture in (ours, theirs))
    whole = float(psnr(first.numpy(), second.numpy()))
    worst = float(power_of_parts((first - second)[None]).max()) / PART**2
    return min(whole, BEST, -10 * math.log10(worst) if worst else BEST)
