"""What came of one picture, or of one pass of it: what its delivery is given."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from halftone.contract.facts import PictureFacts
from halftone.contract.plan import Plan
from halftone.contract.request import ResolvedRequest
from halftone.engine.basics.snapshot import Snapshot
from halftone.engine.making.picture import Picture
from halftone.engine.sampling.film import Film
from halftone.engine.sampling.unfinished import Loop


@dataclass(frozen=True)
class Outcome:
    """facts: the receipt so far; resolved, plan: the rest of the file's metadata."""

    now: Picture
    facts: PictureFacts
    resolved: ResolvedRequest
    plan: Plan


@dataclass(frozen=True)
class Finished(Outcome):
    """film: frames to write; latents: what was decoded; noise: the generator's state after the last step, if any was made."""

    film: Film
    latents: torch.Tensor | None
    noise: torch.Tensor | None


@dataclass(frozen=True)
class Stopped(Outcome):
    """failed: the floats that the failing precision gave; loop: all that the steps after a state need."""

    failed: torch.Tensor | None
    loop: Callable[[Snapshot], Loop]
