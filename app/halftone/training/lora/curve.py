"""What the chart shows of the steps so far: kept with the state, so that a run that is gone on with is shown whole."""

import math
from array import array

import torch

from halftone.health.training.training_record import packed_curve


class Curve:
    """Loss and gradient norm of each step that was made, NaN where one is not known. They decide nothing."""

    def __init__(self) -> None:
        self._values = (array("f"), array("f"))

    def note(self, step: int, loss: float, norm: float | None) -> None:
        """Note a step; later ones were undone."""
        for values, value in zip(self._values, (loss, norm), strict=True):
            del values[step - 1 :]
            values.extend([math.nan] * (step - 1 - len(values)))
            values.append(math.nan if value is None else value)

    @property
    def bad(self) -> int:
        """Steps whose loss was not finite."""
        return sum(not math.isfinite(loss) for loss in self._values[0])

    def packed(self) -> bytes:
        """Pack for an event."""
        return packed_curve(*self._values)

    def tensor(self) -> torch.Tensor:
        """(2, steps), float32."""
        return torch.tensor([list(values) for values in self._values], dtype=torch.float32)

    def take(self, kept: torch.Tensor | None) -> None:
        """What `tensor` gave."""
        if kept is not None:
            losses, norms = kept.tolist()
            self._values = array("f", losses), array("f", norms)
