"""What is wrong with a step, before anything is done about it."""

from dataclasses import dataclass

import torch

from halftone.contract.training import Cause, TrainCure, Watched


@dataclass(frozen=True)
class Problem:
    """name: as people see it, of the module or parameter; network, module: to find a module by. cure: the one that its cause
    asks for, where the optimizer alone can be cured. was, now: of a setting that cannot be.
    """

    cause: Cause
    watched: Watched
    name: str
    network: str = ""
    module: str | None = None
    kind: str = ""
    dtype: torch.dtype | None = None
    peak: float | None = None
    further: tuple[str, ...] = ()
    cure: TrainCure = "none"
    was: str = ""
    now: str = ""
