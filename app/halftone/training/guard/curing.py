"""What is wrong with a step, and its cures: chosen by what is wrong, from the cheapest, applied until they are removed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import nn

from halftone.contract.training import Cause, TrainCure, Watched
from halftone.training.guard.cures import Rung, WideRegion, ladder
from halftone.training.guard.networks import joined, optimized
from halftone.training.guard.optimizers import Masters, is_narrow
from halftone.training.guard.state import GoodState
from halftone.training.guard.update import EPSILON


@dataclass(frozen=True)
class Problem:
    """name: as people see it, of the module or parameter; network, module: to find a module by. cure: for a cause in the
    optimizer alone. was, now: of an impossible setting.
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


SMALLEST_SCALE: Final = 1.0
"""A loss scale that has to go below this one no longer scales up what is small."""
_BACK: Final = 4.0
_SHRUNK: Final = 2.0**-20
"""Factor of a loss whose gradients float16 does not hold, in that step alone: brings those between 0.06 and 7e10 into range."""
_REGIONS: Final[dict[TrainCure, torch.dtype]] = {
    "float32-module": torch.float32,
    "float32-block": torch.float32,
    "bfloat16-all": torch.bfloat16,
    "float32-all": torch.float32,
}
"""Cures of a module, a block or a whole network, and the type that it computes in."""


class Curing:
    """Cures in force, and the next one for a problem."""

    def __init__(
        self, networks: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None
    ) -> None:
        self._networks = networks
        self._optimizer = optimizer
        self.scaler = scaler if scaler is not None and scaler.is_enabled() else None
        """The script's, if it scales."""
        self._regions: dict[tuple[str, str], WideRegion] = {}
        self._rungs: dict[tuple[str, str | None], list[Rung]] = {}
        self._now: dict[tuple[str, str | None], tuple[str, str]] = {}
        self._names: dict[tuple[str, str], tuple[TrainCure, str]] = {}
        self._optimizers: list[tuple[TrainCure, str]] = []
        self._masters: Masters | None = None
        self._scale_before: float | None = None
        self._shrunk = False
        """Whether the loss counts less in this step."""
        self.last: TrainCure = "none"
        self.restored_to: int | None = None

    @property
    def in_force(self) -> tuple[tuple[TrainCure, str], ...]:
        """Each cure with the module or parameter that it is for."""
        return (*self._names.values(), *self._optimizers)

    @property
    def memory(self) -> int:
        """Bytes that the cures take."""
        return sum(region.memory for region in self._regions.values()) + (self._masters.memory if self._masters else 0)

    @property
    def scale(self) -> float | None:
        """Factor of the loss, None where it is not scaled."""
        return None if self.scaler is None else float(self.scaler.get_scale())

    def scale_now(self, device: torch.device) -> list[torch.Tensor]:
        """The factor of the loss as a scalar on the device, or nothing where it is not scaled. Does not wait."""
        return [] if self.scaler is None else [self.scaler.scale(torch.ones((), device=device))]

    def forget_unscaling(self) -> None:
        """Gradients that were unscaled are thrown away: the factor stays, and the next ones can be unscaled."""
        if self.scaler is not None:
            self.scaler.update(self.scaler.get_scale())

    def lower_scale(self, problem: Problem) -> float | None:
        """Lower the loss scale where only it was too large: its ratio to the one before. None: it is not at fault."""
        scale = self.scale
        if problem.cause != "loss-scale" or self.scaler is None or scale is None or scale < SMALLEST_SCALE:
            return None
        self._scale_before = self._scale_before or scale
        self.scaler.update(scale / _BACK)
        return 1 / _BACK

    def raise_scale(self) -> float:
        """The factor of the loss was not at fault: as it was before it was lowered. How much it is of the one that it is now."""
        scale, before, self._scale_before = self.scale, self._scale_before, None
        if self.scaler is None or not scale or before is None:
            return 1.0
        self.scaler.update(before)
        return before / scale

    def keep_scale(self) -> None:
        """The factor of the loss has found its place."""
        self._scale_before = None
        self._unshrink_loss()

    def apply(self, problem: Problem, good: GoodState, tries: int, *, last: bool = False) -> bool:
        """Put the next cure in force. last: no other one will be tried in this step. False: nothing helps."""
        match problem.cause:
            case "weights-nonfinite" | "weights-changed" | "optimizer-state":
                return self._restore(good, tries)
            case "optimizer-epsilon" | "optimizer-overflow":
                return self.cure_optimizer(problem, good)
            case "activation-overflow" | "activation-nonfinite" | "gradient-overflow" | "gradient-nonfinite" | "loss-overflow":
                gradient = problem.watched == "gradients"
                return (last and gradient and self._shrink_loss(problem, good)) or self._widen(problem, whole=last)
            case _:
                return False

    def cure_optimizer(self, problem: Problem, good: GoodState) -> bool:
        """A larger epsilon; float32 masters and moments; moments as they were, where the update itself found them bad."""
        if problem.cure == "put-back":
            self.last, self.restored_to = "put-back", good.steps
            return True
        if problem.cure == "epsilon-up" and not any(cure == "epsilon-up" for cure, _ in self._optimizers):
            for group in self._optimizer.param_groups:
                if "eps" in group:
                    group["eps"] = max(float(group["eps"]), EPSILON)
            good.keep()
        elif problem.cure not in ("epsilon-up", "float32-states") or not self.take_masters(good):
            return False
        self.last = "float32-states" if self._masters is not None else "epsilon-up"
        self._optimizers.append((self.last, problem.name))
        return True

    def take_masters(self, good: GoodState) -> bool:
        """The optimizer works on float32 copies from now on. False: it does already, or nothing that it changes is narrower."""
        if self._masters is not None or not any(map(is_narrow, (p for _, p in optimized(self._optimizer)))):
            return False
        self._masters = Masters(self._optimizer)
        good.take_masters(self._masters)
        return True

    def scale_loss(self, device: str) -> bool:
        """The loss is scaled from now on. False: it is already."""
        if self.scaler is not None:
            return False
        self.scaler = torch.amp.GradScaler(device)
        return True

    def put(self, cures: Iterable[tuple[TrainCure, str]]) -> None:
        """Restore cures by their names in `in_force`; those of the optimizer are in its settings already."""
        for cure, name in cures:
            if cure not in _REGIONS:
                self._optimizers.append((cure, name))
            elif (place := self._place(name)) not in self._regions:
                self._put_region(cure, *place, _REGIONS[cure])

    def mark(self) -> tuple[tuple[TrainCure, str], ...]:
        """Modules that compute in another type now, for `back_to`."""
        return tuple(self._names.values())

    def back_to(self, mark: tuple[tuple[TrainCure, str], ...]) -> None:
        """No module computes in another type but those that did then: what was put since did not help."""
        self._unshrink_loss()
        if mark != self.mark():
            self.remove()
            self._rungs.clear()  # of another step it may
            self.put(mark)

    def remove(self) -> None:
        """Networks compute as before."""
        for region in reversed(self._regions.values()):  # one inside another was put there later
            region.remove()
        self._regions.clear()
        self._names.clear()

    def _restore(self, good: GoodState, tries: int) -> bool:
        """The last good state, or an older one; once a step."""
        if tries:
            return False
        self.restored_to = good.put_back()
        self.last = "put-back"
        return self.restored_to is not None

    def _shrink_loss(self, problem: Problem, good: GoodState) -> bool:
        """Weigh the loss less in this step, with float32 masters: no wider type holds a float16 weight's gradient."""
        weights = [p for _, p in optimized(self._optimizer)]
        if self.scaler is not None or problem.dtype is not torch.float16 or not any(map(is_narrow, weights)):
            return False
        if self.take_masters(good):
            self._optimizers.append(("float32-states", problem.name))
        self.scaler = torch.amp.GradScaler(weights[0].device.type, init_scale=_SHRUNK)
        self._shrunk = True
        self.last = "loss-scale-down"
        return True

    def _unshrink_loss(self) -> None:
        """Later steps count in full: so small a factor would lose their gradients."""
        if self._shrunk:
            self._shrunk, self.scaler = False, None

    def _widen(self, problem: Problem, *, whole: bool) -> bool:
        """whole: at once the widest type of the whole network."""
        if problem.module is None or problem.dtype is None:
            return False
        sick = joined("", problem.module)
        key = (problem.network, sick)
        if key not in self._rungs:
            device = next((p.device for p in self._networks[problem.network].parameters()), torch.device("cpu"))
            self._rungs[key] = ladder(sick, problem.dtype, has_bfloat16=device.type != "cuda" or torch.cuda.is_bf16_supported())
        if whole:
            del self._rungs[key][:-1]
        while self._rungs[key]:
            cure, module, dtype = self._rungs[key].pop(0)
            if any(
                net == problem.network and region.dtype is dtype and (place in ("", module) or module.startswith(f"{place}."))
                for (net, place), region in self._regions.items()
            ):
                continue
            self._put_region(cure, problem.network, module, dtype)
            self.last = cure
            return True
        return False

    def _put_region(self, cure: TrainCure, network: str, module: str, dtype: torch.dtype) -> None:
        self._drop(network, module)
        self._regions[network, module] = WideRegion(self._networks[network].get_submodule(module), dtype, whole=not module)
        self._names[network, module] = (cure, joined(network, module))

    def _place(self, name: str) -> tuple[str, str]:
        """(network, module) of a name that people see."""
        network = next((own for own in self._networks if own and (name == own or name.startswith(f"{own}."))), "")
        return network, name.removeprefix(network).removeprefix(".")

    def _drop(self, network: str, module: str) -> None:
        """Regions inside a larger one are no longer needed, and one of the same module in another type neither."""
        prefix = f"{module}." if module else ""
        for place in [p for p in reversed(self._regions) if p[0] == network and (p[1] == module or p[1].startswith(prefix))]:
            self._regions.pop(place).remove()
            self._names.pop(place)
