"""The way back, watched: in which order the parameters got their gradients, and which of these are bad."""

import math
from collections.abc import Callable, Mapping

import torch

from halftone.measure.stats import peak
from halftone.training.guard.finite import bad_among, plain


class GradientWatch:
    """Notes the order in which gradients arrive; costs one call of Python for each parameter."""

    def __init__(self, parameters: Mapping[str, torch.Tensor]) -> None:
        self._parameters = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
        self._order: list[str] = []
        self._handles = [p.register_post_accumulate_grad_hook(self._note(name)) for name, p in self._parameters.items()]

    def begin(self) -> None:
        """A step begins."""
        self._order.clear()

    def norm(self) -> torch.Tensor:
        """2-norm of all gradients, by torch's own function, so that what is clipped with it is the same to the bit."""
        return torch.nn.utils.get_total_norm([plain(gradient) for gradient in self._gradients().values()])

    def finite_norm(self, norm: torch.Tensor) -> float:
        """That norm as a number, not finite only where a gradient is not. Waits for the device once.

        In 16 bits, or where squares pass float32's limit, the norm of finite gradients can be infinite; then it is taken again.
        """
        value = float(norm)
        if math.isfinite(value) or bad_among(self._gradients()):
            return value
        return math.hypot(*(float(torch.linalg.vector_norm(plain(g).double())) for g in self._gradients().values()))

    def take(self) -> dict[str, torch.Tensor]:
        """The gradients gathered so far, taken away: the next way back begins with none."""
        gathered = self._gradients()
        for parameter in self._parameters.values():
            parameter.grad = None
        return gathered

    def give_back(self, gathered: Mapping[str, torch.Tensor], *, add: bool) -> None:
        """What was gathered, with what came in the meantime (`add`) or without it."""
        for name, parameter in self._parameters.items():
            before = gathered.get(name)
            if before is not None:
                parameter.grad = before if not add or parameter.grad is None else before.add_(parameter.grad)
            elif not add:
                parameter.grad = None

    def clear(self) -> None:
        """The gradients were used, or are not wanted."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def peak(self, name: str) -> float:
        """Largest |x| of one gradient; 0.0 where there is none."""
        gradient = self._gradients().get(name)
        return 0.0 if gradient is None else peak(plain(gradient))

    def bad(self) -> list[str]:
        """Parameters whose gradients are not finite, the first on the way back first."""
        bad = set(bad_among(self._gradients()))
        arrived = [name for name in self._order if name in bad]
        return [*arrived, *(name for name in reversed(self._parameters) if name in bad and name not in arrived)]

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()

    def _gradients(self) -> dict[str, torch.Tensor]:
        return {name: p.grad for name, p in self._parameters.items() if p.grad is not None}

    def _note(self, name: str) -> Callable[[torch.Tensor], None]:
        def arrived(_parameter: torch.Tensor) -> None:
            self._order.append(name)

        return arrived
