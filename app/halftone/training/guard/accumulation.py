"""How many losses make one step of the optimizer: as the guard was told, or as Accelerate gathers them."""

import sys
from collections.abc import Sequence
from typing import Any

import torch

from halftone.training.guard.optimizers import is_prepared


class Accumulation:
    """losses: as the script gave it, None where it said nothing. optimizers: as the script gave them, prepared or not."""

    def __init__(self, losses: int | None, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._given = losses
        self._prepared = next((one for one in optimizers if is_prepared(one)), None)
        self._accelerate: Any = None
        self._gathers = False

    def begin(self) -> None:
        """A loss comes: look whether Accelerate gathers. Raises ValueError where it and the script say different numbers."""
        state = self._state()
        self._accelerate = state if state is not None and state.num_steps > 1 else None
        if self._accelerate is not None and self._given not in (None, self._accelerate.num_steps):
            raise ValueError(
                f"accumulate is {self._given}, but Accelerate gathers {self._accelerate.num_steps} losses for one step: "
                "leave accumulate out, and Accelerate decides"
            )

    @property
    def losses(self) -> int:
        """Losses of one step: each counts 1 / losses."""
        return self._accelerate.num_steps if self._accelerate is not None else self._given or 1

    @property
    def is_outside(self) -> bool:
        """Whether Accelerate decides when a step ends."""
        return self._accelerate is not None

    def ends(self, count: int) -> bool:
        """Whether the step ends with this loss. count: losses of this step so far, this one included."""
        if self._accelerate is None:
            return count >= self.losses
        if not self._accelerate.sync_gradients and count > self.losses:
            otherwise = ", or give the guard accumulate=1" if self._prepared is None else ""
            raise RuntimeError(
                f"Accelerate gathers {self.losses} losses for one step, but {count} came and the step did not end: "
                f"call the guard inside `with accelerator.accumulate(model)`{otherwise}"
            )
        return bool(self._accelerate.sync_gradients)

    def _state(self) -> Any:
        """What Accelerate knows of gathering; None where it does not decide for these optimizers.

        It holds one state for the whole process. An optimizer that it did not prepare may have nothing to do with it, so it
        follows that state only after a loss came while Accelerate was gathering, and only if the script gave no number.
        """
        if self._prepared is not None:
            return self._prepared.gradient_state  # type: ignore[attr-defined]
        module = sys.modules.get("accelerate.state")  # never imported here: a script that gathers with it has it
        if self._given is not None or module is None or not (state := module.GradientState()).initialized:
            return None
        self._gathers = self._gathers or not state.sync_gradients
        return state if self._gathers else None
